"""WebSocket transport at ``/ws``: v1 for clients that offer it, else the legacy wire.

On the legacy wire, a socket has one session, and its frames are answered in order; v1 is in ``v1.py``. The transport is
an ASGI application and not a FastAPI route, because each layer between the socket and the session costs every step some
microseconds.
"""

import asyncio
import logging
from collections.abc import Awaitable
from functools import partial
from typing import TypeVar
from urllib.parse import parse_qs

from starlette.types import Message, Receive, Scope, Send

from openenv.core.env_server.access.peer import peer_address
from openenv.core.env_server.access.rate import Rate
from openenv.core.env_server.history import Journal
from openenv.core.env_server.mcp.dialect import answer_document
from openenv.core.env_server.metrics import Ending, Transport
from openenv.core.env_server.resumption.registry import ResumableSessions
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import ANSWER_TYPES, Session
from openenv.core.env_server.websocket.v1 import GOODBYES, V1Socket
from openenv.core.exceptions import ProductionModeError, RequestError
from openenv.core.wire.legacy import decode, encode, encode_error
from openenv.core.wire.names import V1, WORKERS_HEADER
from openenv.core.wire.types import ServerMode

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

_NORMAL_CLOSURE = 1000
# After this time, the server checks whether the client of a request under way is still connected.
_LOOK_AHEAD_AFTER_S = 1.0


class SocketTransport:
    """Transport for sockets with one session each, opened or attached, and answers in order.

    Args:
        sessions: Opens the sessions.
        max_message_bytes: Maximum length of a message, in bytes of UTF-8.
    """

    opens_as: Transport
    """Transport under which the sessions are counted."""

    def __init__(self, sessions: SessionManager, max_message_bytes: int) -> None:
        self._sessions = sessions
        self._metrics = sessions.metrics
        self._max_message_bytes = max_message_bytes
        self._watch = _Watch()
        self._max_messages_per_s = sessions.limits.max_messages_per_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one socket, from handshake to close."""
        # In a new task: waking a coroutine costs as much again for each coroutine that awaits it, and there are about
        # fifteen between here and the ASGI server.
        await asyncio.create_task(self._serve_socket(scope, receive, send))

    async def _serve_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        await self._serve_one_session(scope, None, receive, send)

    async def _answer(self, session: Session, text: str | None, inbox: "Inbox") -> str | None:
        """Carry out the request of a frame. Return the answer; ``None`` if the request is to close the session."""
        raise NotImplementedError

    def _error_frame(self, error: RequestError) -> str:
        raise NotImplementedError

    def _rate(self) -> Rate | None:
        return None if self._max_messages_per_s is None else Rate(self._max_messages_per_s)

    def _headers(self) -> list[tuple[bytes, bytes]]:
        count = self._sessions.worker_count
        return [(WORKERS_HEADER.lower().encode(), str(count).encode())] if count > 1 else []

    async def _serve_one_session(self, scope: Scope, session_id: str | None, receive: Receive, send: Send) -> None:
        inbox = Inbox(receive, peer_address(scope), self._rate())
        try:
            await send({"type": "websocket.accept", "headers": self._headers()})
            await self._serve(session_id, inbox, send)
            await _send_to_client(send, {"type": "websocket.close", "code": _NORMAL_CLOSURE})
        except _Disconnected as end:
            level = logging.DEBUG if end.code in GOODBYES else logging.INFO
            logger.log(level, "a client disconnected (close code %s)", end.code, extra=inbox.told)
        except OSError as error:  # raised by ASGI servers on sending to a closed socket
            logger.info("a client went while it was being answered: %s", error, extra=inbox.told)
        except asyncio.CancelledError:
            if not inbox.cancelled_its_reader:
                raise
            logger.info("a client went while its request was being executed", extra=inbox.told)
        finally:
            inbox.close()

    async def _serve(self, session_id: str | None, inbox: "Inbox", send: Send) -> None:
        """Answer a socket's messages. An error on opening the session is the first and only frame."""
        try:
            session = await self._open(inbox) if session_id is None else self._sessions.attach(session_id)
        except RequestError as error:
            self._metrics.errors[error.code] += 1
            await _send_to_client(send, {"type": "websocket.send", "text": self._error_frame(error)})
            return
        inbox.told = {"session": session.name}
        if session_id is not None:
            await self._serve_attached(session, inbox, send)
            return
        ending = Ending.DISCONNECTED
        try:
            await self._answer_all(session, inbox, send)
            ending = Ending.CLOSED
        finally:
            self._sessions.close(session, ending)

    async def _serve_attached(self, session: Session, inbox: "Inbox", send: Send) -> None:
        """Answer the messages of a socket that is attached to a session, and detach it at the end."""
        clean = False
        try:
            await self._answer_all(session, inbox, send)
            clean = True
        except _Disconnected as end:
            clean = end.code in GOODBYES
            raise
        finally:
            self._sessions.detach(session, clean=clean)

    async def _open(self, inbox: "Inbox") -> Session:
        return await self._watched(self._sessions.open(client=inbox.client, transport=self.opens_as), inbox)

    async def _answer_all(self, session: Session, inbox: "Inbox", send: Send) -> None:
        metrics = self._metrics
        while not session.closed:
            event = await inbox.next()
            text = event.get("text")
            metrics.frames_in += 1
            metrics.characters_in += len(text or "")
            try:
                if inbox.rate is not None:
                    inbox.rate.check()
                frame = await self._answer(session, text, inbox)
                if frame is None:
                    return
            except RequestError as error:
                metrics.errors[error.code] += 1
                frame = self._error_frame(error)
            metrics.frames_out += 1
            metrics.characters_out += len(frame)
            await _send_to_client(send, {"type": "websocket.send", "text": frame})

    async def _watched(self, awaitable: Awaitable[ResultT], inbox: "Inbox") -> ResultT:
        self._watch.add(inbox)
        try:
            return await awaitable
        finally:
            self._watch.remove(inbox)


class WebSocketTransport(SocketTransport):
    """Transport at ``/ws``, for v1 and the legacy wire.

    Args:
        sessions: Opens the sessions.
        max_message_bytes: Maximum length of a message, in bytes of UTF-8.
        mode: In production mode, only messages of agents, of type ``mcp``, are carried out.
        journal: Journal for recovery of v1 sessions after the process has ended; ``None`` for no recovery.
    """

    opens_as = Transport.LEGACY

    def __init__(
        self,
        sessions: SessionManager,
        max_message_bytes: int,
        mode: ServerMode = ServerMode.SIMULATION,
        journal: Journal | None = None,
    ) -> None:
        super().__init__(sessions, max_message_bytes)
        self._for_agents_only = mode is ServerMode.PRODUCTION
        self._registry = ResumableSessions(sessions, max_message_bytes, journal)

    async def _serve_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        session_id = parse_qs(scope["query_string"].decode("latin-1")).get("session_id", [None])[0]
        if V1 in scope["subprotocols"] and session_id is None:
            await send({"type": "websocket.accept", "subprotocol": V1, "headers": self._headers()})
            socket = V1Socket(
                self._registry,
                send,
                self._max_message_bytes,
                peer_address(scope),
                self._rate(),
                for_agents_only=self._for_agents_only,
            )
            await socket.serve(receive)
        else:
            await self._serve_one_session(scope, session_id, receive, send)

    def _error_frame(self, error: RequestError) -> str:
        return encode_error(error)

    async def _answer(self, session: Session, text: str | None, inbox: "Inbox") -> str | None:
        kind, data = decode(text, self._max_message_bytes)
        if kind == "close":
            return None
        if self._for_agents_only and kind != "mcp":
            raise ProductionModeError(kind)
        started = answer_document(session, data) if kind == "mcp" else session.handle(kind, data)
        answer = started if isinstance(started, str) else await self._watched(started, inbox)
        return encode(ANSWER_TYPES[kind], answer)


async def _send_to_client(send: Send, event: Message) -> None:
    """Send an event.

    Raises:
        OSError: The socket is closed.
    """
    try:
        await send(event)
    except RuntimeError as error:  # raised by uvicorn if the client left during the handshake
        raise ConnectionAbortedError("it has gone already") from error


class Inbox:
    """Receiver of one socket's events, which can be received ahead of ``next``.

    Args:
        receive: The socket's ASGI ``receive``.
        client: Address of the client.
        rate: Rate limit on messages; ``None`` for no limit.
    """

    def __init__(self, receive: Receive, client: str, rate: Rate | None) -> None:
        self.client = client
        self.rate = rate
        self._receive = receive
        self._reader = asyncio.current_task()
        self._ahead: asyncio.Task[Message] | None = None
        self.cancelled_its_reader = False
        self.told: dict[str, str] = {}

    async def next(self) -> Message:
        """Return the next event.

        Raises:
            _Disconnected: The client has disconnected.
        """
        ahead, self._ahead = self._ahead, None
        event = await (self._receive() if ahead is None else ahead)
        if event["type"] == "websocket.disconnect":
            raise _Disconnected(event.get("code"))
        return event

    def look_ahead(self, watch: "_Watch") -> None:
        """Receive the next event now; if it is a disconnect during a watched request, cancel the socket's task."""
        if self._ahead is None:
            self._ahead = asyncio.ensure_future(self._receive())
            self._ahead.add_done_callback(partial(self._seen, watch))

    def close(self) -> None:
        """Stop receiving ahead."""
        if self._ahead is not None:
            self._ahead.cancel()

    def _seen(self, watch: "_Watch", ahead: "asyncio.Task[Message]") -> None:
        ended = not ahead.cancelled() and ahead.exception() is None and ahead.result()["type"] == "websocket.disconnect"
        if ended and self in watch and self._reader is not None:
            self.cancelled_its_reader = True
            self._reader.cancel()


class _Watch:
    """Watch for disconnects during long requests.

    A server that only reads between requests would keep the session of a disconnected client until its last step ends,
    or forever if that step hangs. One timer serves all sockets: a timer per request would cost more than many a step.
    """

    def __init__(self) -> None:
        self._since: dict[Inbox, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __contains__(self, inbox: Inbox) -> bool:
        """Return whether a request of this socket is under way."""
        return inbox in self._since

    def add(self, inbox: Inbox) -> None:
        """Record the start of a request."""
        loop = asyncio.get_running_loop()
        self._since[inbox] = loop.time()
        if self._timer is None or loop is not self._loop:  # an application may be served again, on another event loop
            self._loop = loop
            self._timer = loop.call_later(_LOOK_AHEAD_AFTER_S, self._look)

    def remove(self, inbox: Inbox) -> None:
        """Record the end of the request."""
        del self._since[inbox]

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        for inbox, since in self._since.items():
            if loop.time() - since >= _LOOK_AHEAD_AFTER_S:
                inbox.look_ahead(self)
        self._timer = loop.call_later(_LOOK_AHEAD_AFTER_S, self._look) if self._since else None


class _Disconnected(Exception):  # noqa: N818  # an ending, not an error
    """Disconnect of the client."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code
