"""Choice of the server of a fleet that gets the next sessions, and of their number."""

from collections.abc import Sequence
from math import floor
from typing import NamedTuple


class Load(NamedTuple):
    """Load of a server.

    Attributes:
        used: Slots that are in use, or granted to clients that are on their way.
        capacity: Slots of the server.
    """

    used: int
    capacity: int

    @property
    def free(self) -> int:
        """Slots that are left."""
        return max(self.capacity - self.used, 0)

    @property
    def share(self) -> float:
        """Part of the slots that is in use."""
        return self.used / self.capacity if self.capacity else 1.0


def least_loaded(loads: Sequence[Load]) -> int:
    """Return the position of the server that is least full; of several, that with the most slots left.

    Example:
        >>> least_loaded([Load(5, 10), Load(1, 4), Load(3, 10)])
        1
    """
    return min(range(len(loads)), key=lambda position: (loads[position].share, -loads[position].free))


def granted(loads: Sequence[Load], chosen: int, wanted: int) -> int:
    """Return the number of a client's sessions to open at the server that is least full.

    As many as give it the load that all servers would have if the sessions were spread evenly over them, like water
    that is poured into vessels which are joined at the bottom.

    Returns:
        A number from 1 to ``wanted``; 0 where the server has no slot left.

    Example:
        >>> granted([Load(400, 512), Load(100, 512), Load(100, 512), Load(100, 512)], 1, 1200)
        375
    """
    free = loads[chosen].free
    even = floor(_level(loads, wanted) * loads[chosen].capacity) - loads[chosen].used
    return min(max(even, 1), wanted, free)


def _level(loads: Sequence[Load], wanted: int) -> float:
    """Return the share of slots in use of each server once the sessions are spread, those left out that are fuller."""
    below = sorted(loads, key=lambda load: load.share)
    used = capacity = 0
    level = 0.0
    for position, load in enumerate(below):
        used, capacity = used + load.used, capacity + load.capacity
        level = (used + wanted) / capacity if capacity else 1.0
        if position + 1 < len(below) and level <= below[position + 1].share:
            break
    return min(level, 1.0)
