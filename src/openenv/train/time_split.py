"""Wall-clock time by what it went to: generation, the environment, training, evaluation, waiting."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

__all__ = ["Activity", "TimeSplit"]

Activity = Literal["generation", "environment", "training", "evaluation", "waiting"]


class TimeSplit:
    """Split of one thread's time, whole from its beginning; time without an activity is spent waiting.

    Args:
        clock: Clock in seconds.

    Example:
        >>> split = TimeSplit(iter([0.0, 1.0, 5.0, 6.0]).__next__)
        >>> with split.measure("generation"):
        ...     pass
        >>> split.drain()
        {'waiting': 2.0, 'generation': 4.0}
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._since = clock()
        self._activity: Activity = "waiting"
        self._seconds: dict[str, float] = {}

    def switch(self, activity: Activity) -> Activity:
        """Begin an activity, and return the one that ends by it."""
        now = self._clock()
        self._seconds[self._activity] = self._seconds.get(self._activity, 0.0) + now - self._since
        before, self._activity, self._since = self._activity, activity, now
        return before

    @contextmanager
    def measure(self, activity: Activity) -> Iterator[None]:
        """Measure a block, whose time counts for no activity around it."""
        before = self.switch(activity)
        try:
            yield
        finally:
            self.switch(before)

    def drain(self) -> dict[str, float]:
        """Return the seconds by activity since the beginning, or since the call before."""
        self.switch(self._activity)
        seconds, self._seconds = self._seconds, {}
        return seconds
