"""End of a training, an evaluation or a collection in which most episodes fail."""

from collections import deque
from collections.abc import Iterable
from math import comb
from typing import Protocol

from openenv.core.exceptions import EnvironmentFailedError, FailureKind, OpenEnvError
from openenv.records.failures import failure_counts, failures_text

__all__ = ["FailureWatch"]

LAST_EPISODES = 32
"""Episodes that are judged together."""

_CHANCE = 0.01
"""Probability of so many failures, if half of the episodes or fewer fail, from which on they are more than chance."""


class _Ended(Protocol):
    """Episode that has ended."""

    @property
    def error(self) -> OpenEnvError | None: ...

    @property
    def failure(self) -> FailureKind | None: ...


class FailureWatch:
    """Counts the failures among the last 32 episodes, and ends what plays them where more than half fail.

    A few episodes that fail together end nothing: their number has to be beyond chance.

    Example:
        >>> watch = FailureWatch()
        >>> watch.add([episode, other])  # doctest: +SKIP
    """

    def __init__(self) -> None:
        # Of each episode, its failure with the error; the oldest first.
        self._recent: deque[tuple[FailureKind, OpenEnvError] | None] = deque(maxlen=LAST_EPISODES)

    def add(self, episodes: Iterable[_Ended]) -> None:
        """Count episodes that have ended.

        Raises:
            EnvironmentFailedError: More than half of the last ones failed, beyond chance.
        """
        for episode in episodes:
            kind, error = episode.failure, episode.error
            self._recent.append(None if kind is None or error is None else (kind, error))
        failures = [failure for failure in self._recent if failure is not None]
        if not failures or _chance(len(failures), len(self._recent)) >= _CHANCE:
            return
        kinds = failures_text(failure_counts(kind for kind, _ in failures))
        _, last = failures[-1]
        raise EnvironmentFailedError(
            f"{len(failures)} of the last {len(self._recent)} episodes failed, which is more than half beyond chance: "
            f"{kinds}. None of them counts. Correct what fails and start again; the last failure: {last}"
        ) from last


def _chance(failed: int, episodes: int) -> float:
    """Return the probability that so many or more of some episodes fail if each fails with a chance of one half.

    Example:
        >>> _chance(7, 7) < _CHANCE < _chance(4, 4)
        True
    """
    return float(sum(comb(episodes, number) for number in range(failed, episodes + 1)) / 2**episodes)
