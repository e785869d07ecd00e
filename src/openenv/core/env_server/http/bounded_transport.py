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
        carrier: The transport below TLS; ``None`` without TLS.
    """

    def __init__(
        self, transport: Any, loop: asyncio.AbstractEventLoop, timeout_s: float | None, carrier: Any = None
    ) -> None:
        if isinstance(transport, BoundedTransport):
            transport, carrier = transport.inner, transport.carrier
        self.inner: Any = transport
        self.carrier = carrier
        self.write: Callable[[bytes], None] = self.inner.write  # not by __getattr__, since each answer is written
        self.is_closing = self.inner.is_closing
        self._loop = loop
        self._timeout_s = timeout_s
        self._timer: asyncio.TimerHandle | None = None  # while the client has to read
        self._unread = 0  # bytes, when the timer was started

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def unsent(self) -> int:
        """Bytes that were written and not sent yet, those that TLS has encrypted included."""
        sizes: int = self.inner.get_write_buffer_size()
        return sizes if self.carrier is None else sizes + self.carrier.get_write_buffer_size()

    def close(self) -> None:
        """Close the connection, once the client has read everything or its time is up."""
        if not self.is_closing():  # asyncio's TLS may be closed only once
            self.inner.close()
        self._close_carrier()
        self.watch()

    def watch(self) -> None:
        """Give the client a limited time to read, if there is anything to read."""
        self._unread = self.unsent
        if self._timer is None and self._timeout_s is not None and self._unread:
            self._timer = self._loop.call_later(self._timeout_s, self._look, self._timeout_s)

    def stop(self) -> None:
        """Give the client any time to read, unless the connection is closing."""
        if self._timer is not None and not self.is_closing():
            self._timer.cancel()
            self._timer = None

    def _look(self, timeout_s: float) -> None:
        self._timer = None
        left = self.unsent
        if left and self._unread - left < timeout_s * SLOWEST_BYTES_PER_S:
            self.write = _discard  # uvicorn answers pipelined requests that have come, and uvloop would raise
            self.inner.abort()
            return
        if self.is_closing():
            self._close_carrier()
        self.watch()

    def _close_carrier(self) -> None:
        """Close what is below TLS once TLS has written its end, without waiting for the client's own."""
        if self.carrier is not None and not self.inner.get_write_buffer_size():
            self.carrier.close()


def _discard(_data: bytes) -> None:
    """Send nothing: the connection is closed."""
