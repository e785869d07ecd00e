"""How far a tool says that it is, passed on to the agent that waits for it."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

Send = Callable[[float, str], Awaitable[None]]
"""Sends how much is done, from 0 to 1, and what is being done."""


class Progress:
    """Passes on what one tool call reports, for as long as it is entered.

    A tool may report faster than its agent reads: then only the newest report is sent. Those that are behind an earlier
    one are not, since MCP has progress increase.

    Args:
        send: Sends one report.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._newest = (-1.0, "")
        self._sent = -1.0
        self._news = asyncio.Event()
        self._is_over = False

    def report(self, fraction: float, message: str) -> None:
        """Take a report; on the event loop."""
        if fraction > self._newest[0]:
            self._newest = (fraction, message)
            self._news.set()

    async def __aenter__(self) -> Self:
        """Begin to pass reports on."""
        self._task = asyncio.create_task(self._pass_on())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop; if the call has ended well, once the newest report has been sent."""
        self._is_over = True
        self._news.set()
        try:
            if kind is None:
                await self._task
        finally:
            self._task.cancel()

    async def _pass_on(self) -> None:
        while self._news.is_set() or not self._is_over:
            await self._news.wait()
            self._news.clear()
            fraction, message = self._newest
            if fraction > self._sent:
                self._sent = fraction
                await self._send(fraction, message)
