"""The fastest clients that we can make, so that what is measured is the server.

They speak just enough of WebSocket (RFC 6455): text frames of one fragment. Here is what both wires share and the
legacy wire, one session for each socket; ``wire_client_v1.py`` has many sessions on a socket.
"""

import asyncio
import json
import struct
import time
from collections.abc import Sequence
from typing import Any, Self, cast

STEP_DATA = {"message": "hello there"}
"""The action of every step."""

STEP = {"type": "step", "data": STEP_DATA}
"""The step of the legacy wire."""

_HANDSHAKE = (
    "GET /ws HTTP/1.1\r\n"
    "Host: 127.0.0.1\r\n"
    "Upgrade: websocket\r\n"
    "Connection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Version: 13\r\n"
)
_FINAL_TEXT = 0x81
_CLOSE, _PING, _PONG = 0x88, 0x89, 0x8A
_MASKED = 0x80
# Clients must mask (RFC 6455, 5.3); masking with zeros changes nothing and costs nothing.
_ZERO_MASK = b"\0\0\0\0"


class UnexpectedAnswerError(RuntimeError):
    """A server answered a request with something else than it should; its figures would mean nothing."""


def text_frame(message: bytes) -> bytes:
    """Put a message of UTF-8 into one masked text frame, as a client sends it."""
    size = len(message)
    if size < 126:
        head = bytes([_FINAL_TEXT, _MASKED | size])
    elif size < 1 << 16:
        head = bytes([_FINAL_TEXT, _MASKED | 126]) + struct.pack("!H", size)
    else:
        head = bytes([_FINAL_TEXT, _MASKED | 127]) + struct.pack("!Q", size)
    return head + _ZERO_MASK + message


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


class WireSocket(asyncio.Protocol):
    """A WebSocket connection to a server on this machine; what its frames mean is up to the subclass.

    Attributes:
        subprotocol: What the client offers in the handshake; empty for nothing.
        offers: Further headers of the handshake, each with its line end.
        handshake: The head of the server's answer to the handshake.
    """

    subprotocol = ""
    offers = ""

    def __init__(self) -> None:
        self.handshake = b""
        self._received = b""
        self._upgraded = False
        self._answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    @classmethod
    async def connect(cls, port: int) -> Self:
        """Open a connection.

        Raises:
            UnexpectedAnswerError: The server does not upgrade it, or has no such subprotocol.
        """
        connection = cls()
        await asyncio.get_running_loop().create_connection(lambda: connection, "127.0.0.1", port)
        try:
            await connection._answer
        except UnexpectedAnswerError:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Drop the connection."""
        self._transport.close()

    def write(self, message: bytes) -> None:
        """Send a message in a frame."""
        self._transport.write(text_frame(message))

    def frame_received(self, payload: bytes) -> None:
        """Take what a frame from the server holds."""
        raise NotImplementedError

    def fail(self, reason: str) -> None:
        """Fail whoever waits for an answer."""
        if not self._answer.done():
            self._answer.set_exception(UnexpectedAnswerError(reason))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the upgrade to WebSocket."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports do not inherit from it
        offer = f"Sec-WebSocket-Protocol: {self.subprotocol}\r\n" if self.subprotocol else ""
        self._transport.write(f"{_HANDSHAKE}{offer}{self.offers}\r\n".encode())

    def connection_lost(self, error: Exception | None) -> None:
        """There is nothing left to wait for."""
        self.fail(f"the server closed the connection ({error})")

    def data_received(self, data: bytes) -> None:
        """Take off the frames that are complete."""
        self._received = self._received + data if self._received else data
        if not self._upgraded:
            self._read_handshake()
            return
        while (split := split_frame(self._received)) is not None:
            kind = self._received[0]
            payload, self._received = split
            if kind == _CLOSE:
                self.fail(f"the server closes the connection ({payload[2:].decode(errors='replace')})")
            elif kind == _PING:  # a server that gets no answer to it, within some 20 s, ends the connection
                self._transport.write(bytes([_PONG, _MASKED | len(payload)]) + _ZERO_MASK + payload)
            else:
                self.frame_received(payload)

    def _read_handshake(self) -> None:
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        if not head.startswith(b"HTTP/1.1 101 "):
            self.fail(f"expected an upgrade to WebSocket, got {head!r}")
        elif self.subprotocol and self.subprotocol.encode() not in head:
            self.fail(f"expected a server of {self.subprotocol}, got {head!r}")
        else:
            self._upgraded, self._received, self.handshake = True, rest, head
            self._answer.set_result(None)


class WireSession(WireSocket):
    """A session of the legacy wire. It sends a frame, waits for the answer, sends the next from the same callback."""

    def __init__(self) -> None:
        super().__init__()
        self.latencies: list[float] = []
        self._message = b""
        self._remaining = 0
        self._sent_at = 0.0

    async def ask(self, message: Any, times: int = 1) -> Any:
        """Send a message, ``times`` over, each after the answer to the one before.

        Returns:
            The last answer.
        """
        self._message = json.dumps(message, separators=(",", ":")).encode()
        self._remaining = times
        self._answer = asyncio.get_running_loop().create_future()
        self._send()
        return json.loads(await self._answer)

    def frame_received(self, payload: bytes) -> None:
        """Send the next frame as soon as the answer is here."""
        self.latencies.append(time.perf_counter() - self._sent_at)
        self._remaining -= 1
        if self._remaining > 0:
            self._send()
        elif not self._answer.done():
            self._answer.set_result(payload)

    def _send(self) -> None:
        self._sent_at = time.perf_counter()
        self.write(self._message)


async def open_sessions(port: int, count: int) -> list[WireSession]:
    """Open sessions one after another and reset each."""
    sessions: list[WireSession] = []
    try:
        for _ in range(count):
            session = await WireSession.connect(port)
            sessions.append(session)
            check_answer(await session.ask({"type": "reset"}))
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
    for answer in await asyncio.gather(*[session.ask(STEP, steps) for session in sessions]):
        check_answer(answer)
    return [latency for session in sessions for latency in session.latencies]


def check_answer(answer: Any) -> None:
    """Check that a request was answered as it should be.

    Raises:
        UnexpectedAnswerError: It was not.
    """
    # The bare echo server sends the request back.
    if answer["type"] not in ("opened", "observation", "open", "reset", "step"):
        raise UnexpectedAnswerError(f"expected an observation, got {answer}")
