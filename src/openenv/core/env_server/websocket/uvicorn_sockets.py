"""WebSocket protocol of uvicorn, with bounds on what one client may cost the others.

- Frames that are a whole message, nearly all, bypass the parser of ``websockets``, see
  ``openenv/core/websocket_frames.py``. They are what a client sends and is sent in each step.
- Sockets of clients that stop reading, or disconnect during shutdown, are aborted.
- A handshake that can't be parsed has an answer, too.
- Received data is parsed in slices of some milliseconds, between which other tasks run.
- Long messages are sent in pieces, which are written one after another as the client reads them.
- A message may be fragmented, but not into very many tiny fragments; a client that pings without reading gets one pong.
"""

import asyncio
import logging
import time
from asyncio.transports import BaseTransport
from http import HTTPStatus
from typing import Any, Final, cast

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame
from websockets.protocol import State

from openenv.core.env_server.http.bounded_transport import BoundedTransport
from openenv.core.env_server.websocket.connection import SOCKET_USE, SocketUse
from openenv.core.websocket_frames import (
    BINARY_FRAME,
    PIECE,
    FrameSplitter,
    payload_of,
    server_frame,
    server_frames,
)

logger = logging.getLogger(__name__)

SOCKETS: Final = f"{__name__}:DecisiveSockets"
"""Value for uvicorn's setting ``ws``."""

_TIME_TO_READ_S = 5.0
# Smallest and largest slice, in bytes, that is parsed at once. The smallest slice has some 700 empty frames, which take
# about 4 ms; in between, the duration of the last slice decides.
_SMALLEST_SLICE = 4 * 1024
_LARGEST_SLICE = 64 * 1024
_SLICE_S = 0.002
# Maximum duration of parsing for one connection before other tasks run.
_IN_A_ROW_S = 0.005
# Messages that the application receives in a row before other tasks run, if several have arrived.
_MESSAGES_IN_A_ROW = 64
# Frames that start no message (fragments, pings, pongs): above this number in one turn, the next turn comes only after
# a pause as long as the turn.
_FEW_IDLE_FRAMES = 32
# Limit on the fragments of a message: a fixed number, plus one per so many bytes; 1.5 million for the longest message
# by default.
_FEW_PARTS = 4096
_BYTES_PER_PART = 64
_PONG = b"\x8a"


class DecisiveSockets(WebSocketsSansIOProtocol):
    """WebSocket protocol that closes a socket even if its client does not read, and parses in bounded slices.

    uvicorn closes a socket once all data is sent. A client that is stopped, or whose cable was pulled out, would keep
    its socket, and the session with it, for as long as the kernel retries.

    uvicorn also parses all received data at once, which takes many seconds for millions of empty frames.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        loop = _loop or asyncio.get_event_loop()
        self._use = SocketUse(loop.create_future())
        super().__init__(config, server_state, {**app_state, SOCKET_USE: self._use}, loop)
        self._connected_at = loop.time()
        self._handshake_is_read = False
        self._frames_in = FrameSplitter(masked=True)
        self._unread = bytearray()
        self._slice_bytes = _SMALLEST_SLICE
        self._next_turn: asyncio.Handle | None = None
        self._idle_frames = 0
        self._bytes_in_parts = 0
        self._last_pong = b""
        self._messages = 0
        self._sending = asyncio.Lock()  # held while a message is sent in pieces, or waits for a client to read

    @property
    def idle_since(self) -> float | None:
        """Time at which the socket connected, in seconds of the event loop; ``None`` if it is used."""
        is_idle = self.close_sent or self._use.is_idle()  # the answer to a close may not come
        return self._connected_at if is_idle and not self.transport.is_closing() else None

    def connection_made(self, transport: BaseTransport) -> None:
        """Bound the time that a client has to read what is sent before its socket is closed."""
        super().connection_made(cast("asyncio.Transport", BoundedTransport(transport, self.loop, _TIME_TO_READ_S)))

    def data_received(self, data: bytes) -> None:
        """Parse received data, or queue it for the next turn."""
        if not self._handshake_is_read:  # uvicorn hands the client's request over in one piece
            self._handshake_is_read = True
            super().data_received(data)
            if not self.handshake_initiated:
                self._refuse_handshake()
            return
        if not self._unread and len(data) <= _SMALLEST_SLICE:
            self._parse(data)
            return
        self._unread += data
        if self._next_turn is None:
            self._read_in_turn()
        else:
            self.transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Discard data that was not parsed yet, and tell a connection that does not receive now."""
        self._forget_unread()
        if not self._use.lost.done():
            self._use.lost.set_result(None)
        super().connection_lost(exc)

    def keepalive_timeout(self) -> None:
        """Abort the socket of a client that has not answered a ping."""
        super().keepalive_timeout()
        self.transport.abort()

    def resume_writing(self) -> None:
        """Resume sending, first the pong for the last ping received meanwhile."""
        super().resume_writing()
        self._send_last_pong()

    def handle_cont(self, event: Frame) -> None:
        """Add a fragment to a message; fail the connection on very many tiny fragments."""
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
        """Answer a ping; if the client does not read, only the last ping, when the client reads again."""
        self._idle_frames += 1
        if self.writable.is_set():
            super().handle_ping()
            return
        output = self.conn.data_to_send()
        pongs = [data for data in output if data.startswith(_PONG)]
        others = [data for data in output if not data.startswith(_PONG)]
        if pongs:
            self._last_pong = pongs[-1]
        if others:  # a close frame or the end of the stream
            self._send_last_pong()
            self.transport.write(b"".join(others))

    def handle_pong(self, event: Frame) -> None:
        """Record a pong of the client."""
        self._idle_frames += 1
        super().handle_pong(event)

    def handle_close(self, event: Frame) -> None:
        """Answer a close frame."""
        self._send_last_pong()
        super().handle_close(event)

    def shutdown(self) -> None:
        """Close the socket at shutdown. uvicorn's own method fails during a closing handshake."""
        if self.handshake_complete and self.conn.state is not State.OPEN:
            self.stop_keepalive()
            self.transport.abort()  # TLS would wait for the client's close_notify
        else:
            super().shutdown()

    async def receive(self) -> ASGIReceiveEvent:
        """Return the next message for the application; yield to other tasks after each ``_MESSAGES_IN_A_ROW``."""
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            if self._next_turn is None:
                self.transport.resume_reading()
        self._messages += 1
        if self._messages % _MESSAGES_IN_A_ROW == 0:
            await asyncio.sleep(0)
        return message

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message of the application; one that is not long at once, unless the client does not read."""
        if message["type"] != "websocket.send":
            await super().send(message)
            return
        data, text = message.get("bytes"), message.get("text")
        is_long = len(text if data is None else data) > PIECE  # type: ignore[arg-type]  # one of them is given
        if is_long or not self.writable.is_set() or self._sending.locked() or not self._is_plain():
            async with self._sending:
                await (self._send_in_pieces(message) if is_long else super().send(message))
        elif data is not None:
            self.transport.write(server_frame(data, binary=True))
        elif text is not None:
            self.transport.write(server_frame(text.encode()))

    async def _send_in_pieces(self, message: ASGISendEvent) -> None:
        """Send a long message, between whose pieces other tasks run and control frames are sent."""
        await self.writable.wait()
        if not self._is_plain():
            await super().send(message)
            return
        whole: Any = message.get("text") if message.get("bytes") is None else message.get("bytes")
        is_sent = False
        try:
            for frame in server_frames(whole):
                if not self._is_plain():  # closed meanwhile
                    break
                self.transport.write(frame)
                await asyncio.sleep(0)
                await self.writable.wait()
            is_sent = True
        finally:
            if not is_sent:  # what followed would be read as a part of this message
                self.transport.abort()

    def _refuse_handshake(self) -> None:
        """Answer a handshake that ``websockets`` could not parse; uvicorn does not send even the answer that it has."""
        error = self.conn.handshake_exc
        reason = str((error and error.__cause__) or error or "the request is incomplete")
        logger.info("refused the handshake of a WebSocket from %s: %s", self.client, reason)
        answer = b"".join(self.conn.data_to_send())
        if not answer:
            text = f"Failed to open a WebSocket connection: {reason}.\n"
            answer = self.conn.reject(HTTPStatus.BAD_REQUEST, text).serialize()
        self.handshake_complete = self.close_sent = True
        self.transport.write(answer)
        self.transport.close()

    def _is_plain(self) -> bool:
        """Whether a frame of a whole message needs nothing of ``websockets``: it is neither compressed nor logged."""
        conn = self.conn
        return conn.state is State.OPEN and not (self.disconnected or conn.extensions or conn.debug)

    def _parse(self, data: bytes) -> None:
        """Hand whole messages to the application, and what is between them to ``websockets``."""
        for head, frame in self._frames_in.split(data, self.config.ws_max_size):
            # Between the fragments of a message, a whole message breaks the rules.
            if head and not self.frames and self._is_plain():
                self._message_received(payload_of(frame, head), binary=frame[0] == BINARY_FRAME)
            elif not self.transport.is_closing():
                super().data_received(frame)

    def _message_received(self, message: bytes, *, binary: bool) -> None:
        """Queue a message; pause reading unless the application will receive it next."""
        try:
            event = _received(message, binary=binary)
        except UnicodeDecodeError:
            self.curr_msg_data_type, self.frames = "text", [message]
            self.send_receive_event_to_app()  # closes the socket
            return
        self.queue.put_nowait(event)
        if not self.read_paused and (self.queue.qsize() > 1 or len(message) > _LARGEST_SLICE):
            self.read_paused = True
            self.transport.pause_reading()

    def _read_in_turn(self) -> None:
        """Parse slices of received data for at most ``_IN_A_ROW_S``, and schedule the next turn."""
        self._next_turn = None
        self._idle_frames = 0
        began = time.monotonic()
        elapsed_s = 0.0
        while self._unread and elapsed_s < _IN_A_ROW_S and not self.transport.is_closing():
            data = bytes(self._unread[: self._slice_bytes])
            del self._unread[: self._slice_bytes]
            self._parse(data)
            before_s, elapsed_s = elapsed_s, time.monotonic() - began
            self._adapt_slice(elapsed_s - before_s)
        if self.transport.is_closing():
            self._forget_unread()
        elif self._unread:
            self.transport.pause_reading()
            pause_s = elapsed_s if self._idle_frames > _FEW_IDLE_FRAMES else 0.0
            self._next_turn = self.loop.call_later(pause_s, self._read_in_turn)
        elif not self.read_paused:
            self.transport.resume_reading()

    def _send_last_pong(self) -> None:
        pong, self._last_pong = self._last_pong, b""
        if pong and not self.transport.is_closing():
            self.transport.write(pong)

    def _adapt_slice(self, elapsed_s: float) -> None:
        if elapsed_s > _SLICE_S:
            self._slice_bytes = max(_SMALLEST_SLICE, self._slice_bytes // 2)
        else:
            self._slice_bytes = min(_LARGEST_SLICE, self._slice_bytes * 2)

    def _forget_unread(self) -> None:
        self._unread.clear()
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None


def _received(message: bytes, *, binary: bool) -> ASGIReceiveEvent:
    if binary:
        return {"type": "websocket.receive", "bytes": message}
    return {"type": "websocket.receive", "text": message.decode()}
