"""WebSockets as uvicorn has them, but bounded in what one client may cost the others.

- A client that reads no more, or leaves as the server ends, is let go.
- What arrives is read in slices of some milliseconds, between which others have their turn.
- A message may come in parts, but not in very many tiny ones; a client that pings and reads no pongs gets the last one.
"""

import asyncio
import time
from typing import Any, Final

from uvicorn._types import ASGIReceiveEvent
from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame
from websockets.protocol import State

SOCKETS: Final = f"{__name__}:DecisiveSockets"
"""What uvicorn's setting ``ws`` takes."""

_TIME_TO_READ_S = 5.0
# Bytes that are read at once: the smallest and the largest slice. Of frames without content there are some 700 in the
# smallest, which take about 4 ms; in between, the time that the last slice took decides.
_SMALLEST_SLICE = 4 * 1024
_LARGEST_SLICE = 64 * 1024
_SLICE_S = 0.002
# How long one connection's data may be read before others have their turn.
_IN_A_ROW_S = 0.005
# Messages that are handed to the application before others have their turn, where more than one has arrived.
_MESSAGES_IN_A_ROW = 64
# Frames without a message of their own (parts of one, pings, pongs) in one turn from which on the next turn comes only
# after a pause as long as the turn.
_FEW_IDLE_FRAMES = 32
# A message may come in so many parts, and in one more for each so many bytes: 1.5 million in the longest by default.
_FEW_PARTS = 4096
_BYTES_PER_PART = 64
_PONG = b"\x8a"


class DecisiveSockets(WebSocketsSansIOProtocol):
    """Closes a socket also where its client leaves unread what it was sent, and reads none for too long in a row.

    uvicorn closes a socket once everything was sent. A client that is stopped, or whose cable was pulled out, would
    keep its socket for as long as the kernel tries, and the session with it, which learns of the end only then.

    uvicorn also reads all that has arrived at once, which for millions of empty frames takes many seconds.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._unread = bytearray()
        self._slice_bytes = _SMALLEST_SLICE
        self._next_turn: asyncio.Handle | None = None
        self._idle_frames = 0
        self._bytes_in_parts = 0
        self._last_pong = b""
        self._messages = 0

    def data_received(self, data: bytes) -> None:
        """Read what has arrived, as far as it does not keep others from their turn."""
        if not self._unread and len(data) <= _SMALLEST_SLICE:
            super().data_received(data)
            return
        self._unread += data
        if self._next_turn is None:
            self._read_in_turn()
        else:
            self.transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was not read yet."""
        self._forget_unread()
        super().connection_lost(exc)

    def keepalive_timeout(self) -> None:
        """Let go of a client that has not answered a ping."""
        super().keepalive_timeout()
        self.transport.abort()

    def resume_writing(self) -> None:
        """Go on sending, beginning with the answer to the last ping that came meanwhile."""
        super().resume_writing()
        self._send_last_pong()

    def handle_cont(self, event: Frame) -> None:
        """Take a further part of a message; let go of a client that sends it in very many tiny ones."""
        self._idle_frames += 1
        if self.close_sent:
            return
        if len(self.frames) == 1:
            self._bytes_in_parts = len(self.frames[0])
        self._bytes_in_parts += len(event.data)
        if len(self.frames) < _FEW_PARTS + self._bytes_in_parts // _BYTES_PER_PART:
            super().handle_cont(event)
            return
        self.frames = []
        self.conn.fail(CloseCode.POLICY_VIOLATION, f"a message in more than {_FEW_PARTS} tiny parts")
        self.handle_parser_exception()

    def handle_ping(self) -> None:
        """Answer a ping; where the client does not read, only the last one, and that once it reads again."""
        self._idle_frames += 1
        if self.writable.is_set():
            super().handle_ping()
            return
        output = self.conn.data_to_send()
        pongs = [data for data in output if data.startswith(_PONG)]
        others = [data for data in output if not data.startswith(_PONG)]
        if pongs:
            self._last_pong = pongs[-1]
        if others:  # the connection's end
            self._send_last_pong()
            self.transport.write(b"".join(others))

    def handle_pong(self, event: Frame) -> None:
        """Note that a client is there."""
        self._idle_frames += 1
        super().handle_pong(event)

    def handle_close(self, event: Frame) -> None:
        """Say goodbye to a client that has done so."""
        self._send_last_pong()
        super().handle_close(event)
        self._close_in_time()

    def handle_parser_exception(self) -> None:
        """Let go of a client that has sent what is no frame."""
        super().handle_parser_exception()
        self._close_in_time()

    def shutdown(self) -> None:
        """Close it as the server ends. uvicorn fails on one whose client has said goodbye and is being answered."""
        if self.handshake_complete and self.conn.state is not State.OPEN:
            self.stop_keepalive()
            self.transport.abort()  # TLS would wait for the client's own end
        else:
            super().shutdown()

    async def receive(self) -> ASGIReceiveEvent:
        """Hand the next message to the application, and let others have their turn now and then."""
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            if self._next_turn is None:
                self.transport.resume_reading()
        self._messages += 1
        if self._messages % _MESSAGES_IN_A_ROW == 0:
            await asyncio.sleep(0)
        return message

    def _read_in_turn(self) -> None:
        """Read slices of what has arrived for as long as this may take in a row, and arrange for the next turn."""
        self._next_turn = None
        self._idle_frames = 0
        began = time.monotonic()
        taken_s = 0.0
        while self._unread and taken_s < _IN_A_ROW_S and not self.transport.is_closing():
            data = bytes(self._unread[: self._slice_bytes])
            del self._unread[: self._slice_bytes]
            super().data_received(data)
            before_s, taken_s = taken_s, time.monotonic() - began
            self._adapt_slice(taken_s - before_s)
        if self.transport.is_closing():
            self._forget_unread()
        elif self._unread:
            self.transport.pause_reading()
            pause_s = taken_s if self._idle_frames > _FEW_IDLE_FRAMES else 0.0
            self._next_turn = self.loop.call_later(pause_s, self._read_in_turn)
        elif not self.read_paused:
            self.transport.resume_reading()

    def _send_last_pong(self) -> None:
        pong, self._last_pong = self._last_pong, b""
        if pong and not self.transport.is_closing():
            self.transport.write(pong)

    def _adapt_slice(self, taken_s: float) -> None:
        if taken_s > _SLICE_S:
            self._slice_bytes = max(_SMALLEST_SLICE, self._slice_bytes // 2)
        else:
            self._slice_bytes = min(_LARGEST_SLICE, self._slice_bytes * 2)

    def _forget_unread(self) -> None:
        self._unread.clear()
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None

    def _close_in_time(self) -> None:
        """Have a client read what is left for it within some seconds."""
        if self.transport.is_closing() and self.transport.get_write_buffer_size() > 0:
            self.loop.call_later(_TIME_TO_READ_S, self.transport.abort)
