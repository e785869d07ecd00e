"""Transport of a connection to a client that may not read what is sent."""

import asyncio
from collections.abc import Callable
from typing import Any

SLOWEST_BYTES_PER_S = 1024
"""Minimum rate, in bytes per second, at which a client sends a body, and reads what is sent."""


class BoundedTransport:
    """Transport that aborts its connection if the client stops reading.

    A transport that is closed sends the rest of its data first, for as long as the kernel retries, and holds a file
    descriptor meanwhile. This one gives the client a limited time, as it does between ``watch`` and ``stop``.

    Args:
        transport: The transport of the event loop. What is not defined here is its own.
        loop: The event loop.
        timeout_s: Seconds in which the client has to read everything, or ``SLOWEST_BYTES_PER_S`` for each of them;
            ``None`` for no limit.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop, timeout_s: float | None) -> None:
        self.inner: Any = transport.inner if isinstance(transport, BoundedTransport) else transport
        self.write: Callable[[bytes], None] = self.inner.write  # not by __getattr__, since each answer is written
        self.is_closing = self.inner.is_closing
        self._loop = loop
        self._timeout_s = timeout_s
        self._timer: asyncio.TimerHandle | None = None  # while the client has to read
        self._unread = 0  # bytes, when the timer was started

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def close(self) -> None:
        """Close the connection, once the client has read everything or its time is up."""
        self.inner.close()
        self.watch()

    def watch(self) -> None:
        """Give the client a limited time to read, if there is anything to read."""
        self._unread = self.inner.get_write_buffer_size()
        if self._timer is None and self._timeout_s is not None and self._unread:
            self._timer = self._loop.call_later(self._timeout_s, self._look, self._timeout_s)

    def stop(self) -> None:
        """Give the client any time to read, unless the connection is closing."""
        if self._timer is not None and not self.is_closing():
            self._timer.cancel()
            self._timer = None

    def _look(self, timeout_s: float) -> None:
        self._timer = None
        left = self.inner.get_write_buffer_size()
        if left and self._unread - left < timeout_s * SLOWEST_BYTES_PER_S:
            self.write = _discard  # uvicorn answers pipelined requests that have come, and uvloop would raise
            self.inner.abort()
        else:
            self.watch()


def _discard(_data: bytes) -> None:
    """Send nothing: the connection is closed."""
