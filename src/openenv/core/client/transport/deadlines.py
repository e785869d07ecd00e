"""Deadlines of the answers on a connection, with one timer for all of them.

Nearly every answer comes in time: a timer for each would be made only to be cancelled, and would stay in the event
loop's queue for a while then.
"""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

Expire = Callable[["asyncio.Future[Any]", float], None]
"""What is called for an answer that has not come in time, with its timeout in seconds."""


class _Deadline(NamedTuple):
    """When to give up on an answer.

    Attributes:
        due_s: By the event loop's time.
        timeout_s: How long after the request that is.
        expire: What to call then.
    """

    due_s: float
    timeout_s: float
    expire: Expire


class Deadlines:
    """Gives up on answers that do not come in time.

    Args:
        loop: The event loop that they are awaited in.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[asyncio.Future[Any], _Deadline] = {}
        # The timer, which stays when an answer is removed, and when it is due.
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0

    def add(self, answer: "asyncio.Future[Any]", timeout_s: float, expire: Expire) -> None:
        """Wait for an answer.

        Args:
            answer: The answer.
            timeout_s: Seconds to wait.
            expire: Called with both where the answer has not been removed by then.
        """
        due_s = self._loop.time() + timeout_s
        self._waiting[answer] = _Deadline(due_s, timeout_s, expire)
        if self._timer is None or due_s < self._due_s:
            self._schedule(due_s)

    def remove(self, answer: "asyncio.Future[Any]") -> None:
        """Wait no longer for an answer."""
        self._waiting.pop(answer, None)

    def _schedule(self, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due_s = due_s
        self._timer = self._loop.call_at(due_s, self._check)

    def _check(self) -> None:
        """Give up on what is overdue, and look again at the next deadline."""
        self._timer = None
        now_s = self._loop.time()
        overdue = {answer: deadline for answer, deadline in self._waiting.items() if deadline.due_s <= now_s}
        for answer in overdue:
            del self._waiting[answer]
        if self._waiting:
            self._schedule(min(deadline.due_s for deadline in self._waiting.values()))
        for answer, deadline in overdue.items():
            deadline.expire(answer, deadline.timeout_s)
