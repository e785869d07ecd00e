"""Metrics of a server process.

Code counts in plain attributes of ``Metrics`` (``metrics.resumed += 1``); names, labels and the text for Prometheus are
built per scrape, in ``operations/exposition.py``. A step takes about 20 µs in all, so counting it must not cost more
than two clock readings.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from enum import StrEnum

BOUNDS_S = (
    *(0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
"""Upper bounds of a histogram's buckets, in seconds: from steps of microseconds to those that call a language model."""

INLINE_STEPS_TIMED = 7
"""Sampling interval for the duration of inline steps, which take microseconds: timing costs 0.3 µs.

A prime, since otherwise the samples would come from the same sessions whenever sessions step together.
"""


class Transport(StrEnum):
    """Transport of a session's client."""

    V1 = "v1"
    LEGACY = "legacy"
    HTTP = "http"
    ORS = "ors"
    MCP = "mcp"


class Ending(StrEnum):
    """Reason for the end of a session."""

    CLOSED = "closed"
    """The client closed the session."""
    DISCONNECTED = "disconnected"
    """The session ended with its socket, or the client closed the socket on purpose."""
    AWAY = "away"
    """The client did not resume the session within the resume window."""
    IDLE = "idle"
    """The idle timeout passed without a request."""
    REPLACED = "replaced"
    """The session was evicted for another session, or resumed by another server."""
    REVOKED = "revoked"
    """The token of its client was removed, or may not play any more."""
    FAILED = "failed"
    """The server failed on the session."""
    SHUTDOWN = "shutdown"
    """The server shut down."""


RECOVERY_FAILURES = (
    *("incomplete", "unrepeatable", "different", "environment", "elsewhere", "no_place", "unreadable", "other"),
)
"""Reasons for a failed recovery, in this order: the journal is incomplete; a request can't be repeated; an answer
differs; the environment is another one; another server resumed the session; no slot is free; the journal can't be
read; any other reason."""


TRACE_LOSSES = ("backlog", "encoding", "refused", "size", "other")
"""Reasons for a lost part of an episode's trace: too much waited to be written; it has no form as JSON; the database
refuses one of its values; any other reason, which is in the log."""


class Histogram:
    """Histogram of durations.

    Attributes:
        counts: Number of durations up to the bound of the same index in ``BOUNDS_S`` and above the bound before; the
            last count is of durations above all bounds.
        total_s: Sum of the durations, in seconds.

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
        """Number of durations."""
        return sum(self.counts)

    def observe(self, duration_s: float) -> None:
        """Record a duration, in seconds."""
        self.counts[bisect_left(BOUNDS_S, duration_s)] += 1
        self.total_s += duration_s


def _none() -> int:
    return 0


class Metrics:
    """Counts and gauges of one server process; counts since its start.

    Attributes:
        opened: Sessions opened, by ``Transport``.
        opened_by_token: The same by the name of the client's token, for clients with a named one.
        closed: Sessions that ended, by ``Ending``.
        steps: Steps that returned an observation.
        step_times: Durations of these steps, from the step's turn to its observation; of steps that run inline on the
            event loop, one in ``INLINE_STEPS_TIMED``.
        reset_times: Durations of resets that returned an observation.
        errors: Requests answered with an error, by error code.
        frames_in: WebSocket frames received.
        frames_out: WebSocket frames sent.
        characters_in: Characters in received frames; equal to bytes for ASCII.
        characters_out: Characters in sent frames.
        resumed: Live sessions resumed on another socket of their client.
        recovered: Sessions recovered from the journal.
        recoveries_failed: Failed recoveries, by one of ``RECOVERY_FAILURES``.
        forked: Sessions opened as forks.
        journal_commits: Commits of the journal.
        journal_seconds: Time spent in commits of the journal, in seconds.
        journal_failing: Whether the journal can't be written now; sessions continue without it.
        traces_failing: Whether the traces can't be written now.
        trace_parts_dropped: Parts of episodes' traces that were lost, by one of ``TRACE_LOSSES``.
        journal_replaced: Times that another process removed or replaced the journal, and a new one was created.
        waiting: Requests in the queue for a slot now.
        draining: Whether the server refuses new sessions because it is shutting down.
    """

    def __init__(self) -> None:
        self.opened: Counter[str] = Counter()
        self.opened_by_token: Counter[str] = Counter()
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
        self.traces_failing = False
        self.trace_parts_dropped: Counter[str] = Counter()
        self.waiting = 0
        self.draining = False
        self._count_queued: Callable[[], int] = _none

    @property
    def queued(self) -> int:
        """Number of requests that wait now for another request of their session."""
        return self._count_queued()

    def watch_queued(self, count: Callable[[], int]) -> None:
        """Set the function that counts the requests which wait for another request of their session.

        Args:
            count: Called at each scrape.
        """
        self._count_queued = count
