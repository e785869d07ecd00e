"""Number of replicas that a fleet should have, by the sessions that it holds."""

import math
from dataclasses import dataclass

from openenv.core.exceptions import ConfigurationError

_LEAST_FREE_SHARE, _MAX_FREE_SHARE = 0.0, 0.9


@dataclass(frozen=True)
class Autoscaling:
    """Bounds between which a fleet chooses the number of its replicas.

    Attributes:
        min_replicas: Smallest number of replicas.
        max_replicas: Largest number of replicas.
        free_share: Part of all slots that is to be free. Where less is, replicas are added.
        calm_s: Seconds for which there must have been one replica too many before it is removed.

    Raises:
        ConfigurationError: A bound makes no sense.
    """

    min_replicas: int
    max_replicas: int
    free_share: float = 0.2
    calm_s: float = 60.0

    def __post_init__(self) -> None:
        if not 1 <= self.min_replicas <= self.max_replicas:
            raise ConfigurationError(
                "Expected min_replicas to be at least 1 and max_replicas no fewer, got "
                f"{self.min_replicas} and {self.max_replicas}."
            )
        if not _LEAST_FREE_SHARE <= self.free_share <= _MAX_FREE_SHARE:
            raise ConfigurationError(f"Expected free_share to be from 0 to 0.9, got {self.free_share}.")
        if not 0 <= self.calm_s < math.inf:
            raise ConfigurationError(f"Expected calm_s to be 0 or more seconds, got {self.calm_s}.")

    def within(self, replicas: int) -> int:
        """Limit a number of replicas to the bounds."""
        return max(self.min_replicas, min(replicas, self.max_replicas))

    def needed(self, sessions: int, capacity: int) -> int:
        """Return the number of replicas that keep the share of slots free that is to be free.

        Args:
            sessions: Sessions that there are, and those that found no slot.
            capacity: Slots of a replica.

        Example:
            >>> Autoscaling(1, 8, free_share=0.2).needed(sessions=100, capacity=50)
            3
        """
        return self.within(math.ceil(sessions / (capacity * (1 - self.free_share))))

    def has_one_too_many(self, replicas: int, sessions: int, capacity: int) -> bool:
        """Return whether one fewer would do, with half as much again left free, so that it is not soon missing.

        Args:
            replicas: Number of replicas.
            sessions: Number of sessions.
            capacity: Slots of a replica.

        Example:
            >>> scaling = Autoscaling(1, 8, free_share=0.2)
            >>> scaling.has_one_too_many(3, sessions=75, capacity=50), scaling.has_one_too_many(3, 60, 50)
            (False, True)
        """
        if replicas <= self.min_replicas:
            return False
        busy = 1 - min(1.5 * self.free_share, 1.0)
        return sessions <= (replicas - 1) * capacity * busy
