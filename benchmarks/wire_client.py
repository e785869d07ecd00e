"""The fastest client that we can make, so that what is measured is the server.

It speaks just enough of WebSocket (RFC 6455) for the legacy wire: text frames of one fragment, one request at a time.
"""

import asyncio
import json
import struct
import time
from collections.abc import Sequence
from typing import Any, cast

_HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\n"
    b"Host: 127.0.0.1\r\n"
    b"Upgrade: websocket\r\n"
    b"Connection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Version: 13\r\n\r\n"
)
_FINAL_TEXT = 0x81
_MASKED = 0x80
# Clients must mask (RFC 6455, 5.3); masking with zeros changes nothing and costs nothing.
_ZERO_MASK = b"\0\0\0\0"


class UnexpectedAnswerError(RuntimeError):
    """A server answered a request with something else than it should; its figures would mean nothing."""


def text_frame(message: bytes) -> bytes:
    """Put a message into one masked text frame, as a client sends it.

    Args:
        message: At most 65,535 bytes of UTF-8.

    Raises:
        ValueError: The message is longer.
    """
    size = len(message)
    if size < 126:
        return bytes([_FINAL_TEXT, _MASKED | size]) + _ZERO_MASK + message
    if size < 1 << 16:
        return bytes([_FINAL_TEXT, _MASKED | 126]) + struct.pack("!H", size) + _ZERO_MASK + message
    raise ValueError(f"expected a message of at most 65535 bytes, got {size}; send a shorter one")


def split_frame(received: bytes) -> tuple[bytes, bytes] | None:
    """Take the first frame off what a server has sent.

    Args:
        received: Unmasked bytes, starting at a frame's start.

    Returns:
        The frame's payload and the bytes after it; ``None`` as long as the frame is incomplete.
    """
    if len(received) < 2:
        return None
    size, start = received[1], 2
    if size == 126:
        start = 4
        size = int.from_bytes(received[2:4]) if len(received) >= start else 1 << 16
    elif size == 127:
        start = 10
        size = int.from_bytes(received[2:10]) if len(received) >= start else 1 << 16
    end = start + size
    return (received[start:end], received[end:]) if len(received) >= end else None


class WireSession(asyncio.Protocol):
    """One socket to a server. It sends a frame, waits for the answer, and sends the next from the same callback."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self._received = b""
        self._upgraded = False
        self._frame = b""
        self._remaining = 0
        self._sent_at = 0.0
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def open(self, port: int) -> None:
        """Connect to a server on this machine."""
        await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", port)
        await self._answer

    async def ask(self, message: Any, times: int = 1) -> Any:
        """Send a message, ``times`` over, each after the answer to the one before.

        Returns:
            The last answer.
        """
        self._frame = text_frame(json.dumps(message, separators=(",", ":")).encode())
        self._remaining = times
        self._answer = asyncio.get_running_loop().create_future()
        self._send()
        return json.loads(await self._answer)

    def close(self) -> None:
        """Drop the connection."""
        self._transport.close()

    def _send(self) -> None:
        self._sent_at = time.perf_counter()
        self._transport.write(self._frame)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the upgrade to WebSocket."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports do not inherit from it
        self._transport.write(_HANDSHAKE)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail whoever waits for an answer."""
        if not self._answer.done():
            self._answer.set_exception(UnexpectedAnswerError(f"the server closed the connection ({error})"))

    def data_received(self, data: bytes) -> None:
        """Send the next frame as soon as the answer is complete."""
        self._received += data
        if not self._upgraded:
            self._read_handshake()
            return
        while (split := split_frame(self._received)) is not None:
            payload, self._received = split
            self.latencies.append(time.perf_counter() - self._sent_at)
            self._remaining -= 1
            if self._remaining > 0:
                self._send()
            elif not self._answer.done():
                self._answer.set_result(payload)

    def _read_handshake(self) -> None:
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        if not head.startswith(b"HTTP/1.1 101 "):
            self._answer.set_exception(UnexpectedAnswerError(f"expected an upgrade to WebSocket, got {head!r}"))
            return
        self._upgraded, self._received = True, rest
        self._answer.set_result(b"")


async def open_sessions(port: int, count: int) -> list[WireSession]:
    """Open sessions one after another and reset each."""
    sessions: list[WireSession] = []
    try:
        for _ in range(count):
            session = WireSession()
            await session.open(port)
            sessions.append(session)
            _check(await session.ask({"type": "reset"}))
    except UnexpectedAnswerError:
        for session in sessions:
            session.close()
        raise
    return sessions


async def step_all(sessions: Sequence[WireSession], steps: int) -> list[float]:
    """Let every session do ``steps`` steps, all at once.

    Returns:
        The seconds that each step took.
    """
    for session in sessions:
        session.latencies.clear()
    step = {"type": "step", "data": {"message": "hello there"}}
    for answer in await asyncio.gather(*[session.ask(step, steps) for session in sessions]):
        _check(answer)
    return [latency for session in sessions for latency in session.latencies]


def _check(answer: Any) -> None:
    # The bare echo server sends the request back.
    if answer["type"] not in ("observation", "reset", "step"):
        raise UnexpectedAnswerError(f"expected an observation, got {answer}")
