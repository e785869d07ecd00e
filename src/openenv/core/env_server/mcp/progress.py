"""Progress reports of a tool, sent to the agent that waits for it."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

Send = Callable[[float, str], Awaitable[None]]
"""Sends one report: the fraction that is done, from 0 to 1, and a message."""


class Progress:
    """Progress reports of one tool call, sent within its ``async with`` block.

    A tool may report faster than its agent reads: then only the newest report is sent. Reports that go back are
    dropped, since progress must increase in MCP.

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
        """Accept a report; on the event loop."""
        if fraction > self._newest[0]:
            self._newest = (fraction, message)
            self._news.set()

    async def __aenter__(self) -> Self:
        """Start sending reports."""
        self._task = asyncio.create_task(self._pass_on())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop sending; after a successful call, once the newest report has been sent."""
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
