"""Choice of the server of a fleet that gets the next sessions, and of their number."""

from collections.abc import Sequence
from math import floor
from typing import NamedTuple


class Load(NamedTuple):
    """Load of a server.

    Attributes:
        taken: Slots that are in use, or granted to clients that are on their way.
        capacity: Places that there are.
    """

    taken: int
    capacity: int

    @property
    def free(self) -> int:
        """Places that are left."""
        return max(self.capacity - self.taken, 0)

    @property
    def share(self) -> float:
        """Part of the slots that is in use."""
        return self.taken / self.capacity if self.capacity else 1.0


def least_loaded(loads: Sequence[Load]) -> int:
    """Return the position of the server that is least full; of several, that with the most slots left.

    Args:
        loads: How full each server is; at least one.

    Example:
        >>> least_loaded([Load(5, 10), Load(1, 4), Load(3, 10)])
        1
    """
    return min(range(len(loads)), key=lambda position: (loads[position].share, -loads[position].free))


def granted(loads: Sequence[Load], chosen: int, wanted: int) -> int:
    """Return how many of a client's sessions to open at the server that is least full.

    As many as bring it to where all servers would stand if the sessions were spread evenly over them, like water that
    is poured into vessels which are joined at the bottom.

    Args:
        loads: How full each server is.
        chosen: Position of the one that is least full.
        wanted: Sessions that the client would open.

    Returns:
        A number from 1 to ``wanted``; 0 where the server has no slot left.

    Example:
        >>> granted([Load(400, 512), Load(100, 512), Load(100, 512), Load(100, 512)], 1, 1200)
        375
    """
    free = loads[chosen].free
    even = floor(_level(loads, wanted) * loads[chosen].capacity) - loads[chosen].taken
    return min(max(even, 1), wanted, free)


def _level(loads: Sequence[Load], wanted: int) -> float:
    """Return the share that is taken of each server once the sessions are spread, those left out that are fuller."""
    below = sorted(loads, key=lambda load: load.share)
    taken = capacity = 0
    level = 0.0
    for position, load in enumerate(below):
        taken, capacity = taken + load.taken, capacity + load.capacity
        level = (taken + wanted) / capacity if capacity else 1.0
        if position + 1 < len(below) and level <= below[position + 1].share:
            break
    return min(level, 1.0)
