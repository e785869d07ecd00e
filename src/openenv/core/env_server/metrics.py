"""What a server counts while it serves.

One ``Metrics`` belongs to one process of a server. Whoever has something to count adds to a plain attribute of it
(``metrics.resumed += 1``); names, labels and the text that Prometheus reads are made only when somebody asks, in
``exposition.py``. A step costs some 20 µs in all, so what it pays for being counted is the worth of two clock readings.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from enum import StrEnum

BOUNDS_S = (
    *(0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
"""Upper bounds of a histogram's buckets, in seconds: from steps of microseconds to those that ask a language model."""

INLINE_STEPS_TIMED = 7
"""Of the steps that run inline, which take microseconds, one in so many is timed: that alone would cost 0.3 µs each.

A prime, since sessions that step together would otherwise always have the same ones of them timed.
"""


class Transport(StrEnum):
    """How a client speaks to its session."""

    V1 = "v1"
    LEGACY = "legacy"
    HTTP = "http"
    ORS = "ors"
    MCP = "mcp"


class Ending(StrEnum):
    """Why a session ended."""

    CLOSED = "closed"
    """Its client closed it."""
    DISCONNECTED = "disconnected"
    """Its socket went, and with it the session; or its client said goodbye."""
    AWAY = "away"
    """Its client did not come back within the resume window."""
    IDLE = "idle"
    """Nobody asked anything of it for too long."""
    REPLACED = "replaced"
    """It made room for another session."""
    FAILED = "failed"
    """The server could not serve it any more."""
    SHUTDOWN = "shutdown"
    """The server ended."""


RECOVERY_FAILURES = (
    *("incomplete", "unrepeatable", "different", "environment", "elsewhere", "no_place", "unreadable", "other"),
)
"""Why a session could not be rebuilt, in this order: the journal lacks some of it, or holds what can't be repeated; the
environment did something else this time, or is another one; another server took it up; every place was taken; the
journal can't be read."""


class Histogram:
    """How long something took, each time.

    Attributes:
        counts: How many times it took at most the bound of the same index in ``BOUNDS_S``, and more than the one
            before; at the end, how many times it took longer than any bound.
        total_s: All those times together, in seconds.

    Example:
        >>> histogram = Histogram()
        >>> histogram.observe(0.02)
        >>> histogram.count, histogram.total_s
        (1, 0.02)
    """

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    @property
    def count(self) -> int:
        """How many times."""
        return sum(self.counts)

    def observe(self, duration_s: float) -> None:
        """Note one more time, in seconds."""
        self.counts[bisect_left(BOUNDS_S, duration_s)] += 1
        self.total_s += duration_s


def _none() -> int:
    return 0


class Metrics:
    """The figures of one process of a server, all of them since it started unless they say otherwise.

    Attributes:
        opened: Sessions opened, by ``Transport``.
        closed: Sessions that ended, by ``Ending``.
        steps: Steps that gave an observation.
        step_times: How long they took, from a step's turn to its observation; where steps run inline on the event loop,
            how long one in ``INLINE_STEPS_TIMED`` took.
        reset_times: How long each reset took that gave an observation.
        errors: Requests answered with an error, by its code.
        frames_in: Frames that came over WebSockets.
        frames_out: Frames that left over WebSockets.
        characters_in: Characters of the former, which are bytes as far as they are ASCII.
        characters_out: Characters of the latter.
        resumed: Sessions that a further socket of their client took up, while they were alive.
        recovered: Sessions rebuilt from the journal.
        recoveries_failed: Times that a session could not be rebuilt, by one of ``RECOVERY_FAILURES``.
        forked: Sessions that were opened as forks of others.
        journal_commits: Times that the journal wrote what it had gathered.
        journal_seconds: Time that this took, in seconds.
        journal_failing: Whether the journal can't be written now, so that sessions go on without it.
        journal_replaced: Times that the journal was removed or replaced by others and made anew.
        waiting: Clients that wait in line for a place now.
        draining: Whether the server takes no new sessions any more, because it is about to end.
        count_queued: Counts the requests that wait now for others of their session.
    """

    def __init__(self) -> None:
        self.opened: Counter[str] = Counter()
        self.closed: Counter[str] = Counter()
        self.steps = 0
        self.step_times = Histogram()
        self.reset_times = Histogram()
        self.errors: Counter[str] = Counter()
        self.frames_in = 0
        self.frames_out = 0
        self.characters_in = 0
        self.characters_out = 0
        self.resumed = 0
        self.recovered = 0
        self.recoveries_failed: Counter[str] = Counter()
        self.forked = 0
        self.journal_commits = 0
        self.journal_seconds = 0.0
        self.journal_failing = False
        self.journal_replaced = 0
        self.waiting = 0
        self.draining = False
        self.count_queued: Callable[[], int] = _none
