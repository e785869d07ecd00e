"""Hand a request on to the worker that holds its session.

HTTP requests, and sockets that attach to a session, name their session; they may arrive at any worker. What crosses
from one worker to the other is not HTTP or WebSocket but the ASGI call itself, its scope and its events: the worker
that holds the session runs its application as if the client had come to it, on a stream between the two.
"""

import asyncio
import json
import logging
import socket
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any, Self
from urllib.parse import parse_qs

from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openenv.core.env_server.http import answer_request_error
from openenv.core.env_server.protocol import V1, encode_error
from openenv.core.env_server.session_ids import (
    AGENT_HEADER,
    HAND_ON,
    ORS_HEADER,
    SESSION_COOKIE,
    SESSION_HEADER,
    worker_of,
)
from openenv.core.exceptions import SessionNotFoundError

logger = logging.getLogger(__name__)

# A key that no scope or event has, for what JSON can't say.
_BYTES = "base64"
_SIZE_BYTES = 4
_READ_BYTES = 65536
_SERVICE_RESTART = 1012
_ABNORMAL_CLOSURE = 1006
# Events after which a client still waits for something: none, or a socket's that are not its last.
_UNFINISHED = ("", "websocket.accept", "websocket.send")
# What of a scope means the same in another process.
_SCOPE_KEYS = [
    "type",
    "asgi",
    "http_version",
    "method",
    "scheme",
    "path",
    "raw_path",
    "query_string",
    "root_path",
    "headers",
    "client",
    "server",
    "subprotocols",
    "extensions",
]
_TAKEN: Message = {"type": "taken"}


class Stream:
    """ASGI events between two workers.

    Args:
        reader: Where events come from.
        writer: Where events go.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, line: socket.socket) -> Self:
        """Make a stream of a connected Unix socket, which is the stream's from now on."""
        return cls(*await asyncio.open_unix_connection(sock=line))

    async def receive(self) -> Message | None:
        """Return the next event; ``None`` at the end."""
        try:
            size = int.from_bytes(await self._reader.readexactly(_SIZE_BYTES))
            text = await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        event: Message = json.loads(text, object_hook=_revive_bytes)
        return event

    async def send(self, event: Message) -> None:
        """Send an event.

        Raises:
            ConnectionError: The other side has gone.
        """
        text = json.dumps(event, default=_encode_bytes).encode()
        self._writer.write(len(text).to_bytes(_SIZE_BYTES) + text)
        await self._writer.drain()

    async def finish(self) -> None:
        """End it once the other side has closed it; what that still sends is of no interest.

        To close it with something unread would reset it, and the other side might miss the last events.
        """
        with suppress(ConnectionError):
            self._writer.write_eof()
            while await self._reader.read(_READ_BYTES):
                pass
        await self.close()

    def abort(self) -> None:
        """End it at once, for both sides."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """End it at once, for both sides, and wait until it has ended."""
        self.abort()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


Connect = Callable[[str], Awaitable[Stream]]
"""Opens a stream to the worker of a number."""


class Relay:
    """ASGI middleware that hands on what names another worker's session.

    Args:
        app: The application of this worker.
        others: Numbers of the other workers.
        connect: Opens a stream to one of them, or to the one that takes its place.
    """

    def __init__(self, app: ASGIApp, others: Collection[str], connect: Connect) -> None:
        self._app = app
        self._others = others
        self._connect = connect
        self._calls: set[_Call] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call here, or have it answered there."""
        session_id = named_session(scope) or ""
        worker = worker_of(session_id)
        if worker is None or worker not in self._others:
            await self._app({**scope, HAND_ON: self.hand_on} if _is_of_agent(scope) else scope, receive, send)
        elif not await self.hand_on(session_id, scope, receive, send):
            # This application has that worker's sessions from a journal, or says that there are none.
            await self._app(scope, receive, send)

    async def hand_on(self, session_id: str, scope: Scope, receive: Receive, send: Send) -> bool:
        """Have the worker answer that holds a session; ``False`` where that is this one, or not there (any more)."""
        worker = worker_of(session_id)
        if worker is None or worker not in self._others:
            return False
        stream = await self._connect(worker)
        try:
            if not await _offer(scope, stream):
                return False
            await self._carry(_Call(session_id, scope, stream), receive, send)
            return True
        finally:
            await stream.close()

    def end_streams(self) -> None:
        """End the streams of agents, which would keep this worker from ending."""
        for call in self._calls:
            call.end_stream()

    async def _carry(self, call: "_Call", receive: Receive, send: Send) -> None:
        self._calls.add(call)
        try:
            await call.carry(receive, send)
        finally:
            self._calls.discard(call)


async def answer_relayed(app: ASGIApp, state: dict[str, Any], stream: Stream) -> None:
    """Answer a call that another worker hands on.

    Args:
        app: The application of this worker.
        state: What its lifespan has set up.
        stream: Where the call comes from.
    """
    try:
        scope = await stream.receive()
        if scope is None:
            return
        await stream.send(_TAKEN)
        disconnect: Message = {"type": f"{scope['type']}.disconnect", "code": _ABNORMAL_CLOSURE}
        await app({**scope, "state": state.copy()}, partial(_receive_or, disconnect, stream), stream.send)
    except ConnectionError as error:
        logger.debug("the worker that handed a request on has gone: %s", error)
    except Exception:  # nobody else hears of it; the other worker sees that no answer came
        logger.exception("the application raised")
    finally:
        await stream.finish()


class _Call:
    """One call that another worker answers, with the session that it names."""

    def __init__(self, session_id: str, scope: Scope, stream: Stream) -> None:
        self._session_id = session_id
        self._scope = scope
        self._stream = stream
        self._last = ""
        self._client_has_gone = False
        self._is_stream = _is_of_agent(scope) and scope["method"] == "GET"

    def end_stream(self) -> None:
        """End it, if it is a stream, which the other worker would hold open for ever."""
        if self._is_stream:
            self._stream.abort()

    async def carry(self, receive: Receive, send: Send) -> None:
        """Carry the client's events there and the answers back, until that side has ended."""
        upwards = asyncio.create_task(self._carry_up(receive))
        more = False
        try:
            while (event := await self._stream.receive()) is not None:
                self._last = event["type"]
                more = self._last == "http.response.start" or event.get("more_body", False)
                await send(event)
            if self._last in _UNFINISHED and not self._client_has_gone:
                await self._fail(send)
            elif self._is_stream and more:
                await send({"type": "http.response.body", "body": b""})
        except (OSError, RuntimeError) as error:  # as ASGI servers raise on sending to a client that has gone
            logger.debug("a client went while it was being answered: %s", error)
        finally:
            upwards.cancel()

    async def _carry_up(self, receive: Receive) -> None:
        with suppress(ConnectionError):  # the other side's end shows on the way back
            while not self._client_has_gone:
                event = await receive()
                self._client_has_gone = event["type"].endswith(".disconnect")
                await self._stream.send(event)

    async def _fail(self, send: Send) -> None:
        """Tell a client that is still there what became of its session."""
        error = SessionNotFoundError(self._session_id, "This session has ended; the process that held it was ended.")
        if self._scope["type"] == "http":
            await (await answer_request_error(Request(self._scope), error))(self._scope, _nothing, send)
            return
        if not self._last and _speaks_v1(self._scope):  # which comes back for what it held
            await send({"type": "websocket.accept", "subprotocol": V1})
        elif not self._last:
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.send", "text": encode_error(error)})
        await send({"type": "websocket.close", "code": _SERVICE_RESTART})


async def _offer(scope: Scope, stream: Stream) -> bool:
    """Describe a call to the worker that is to answer it; ``False`` where that worker is not there."""
    try:
        await stream.send({key: scope[key] for key in _SCOPE_KEYS if key in scope})
    except ConnectionError:
        return False
    return await stream.receive() is not None


async def _receive_or(disconnect: Message, stream: Stream) -> Message:
    event = await stream.receive()
    return disconnect if event is None else event


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


def named_session(scope: Scope) -> str | None:
    """Return the session that a call names, as the transports read it; ``None`` where it names none.

    Args:
        scope: ASGI's description of the call.
    """
    if scope["type"] == "websocket":
        return _session_of_socket(scope)
    if scope["type"] != "http":
        return None
    request = HTTPConnection(scope)
    if _is_of_agent(scope):
        named = request.headers.get(AGENT_HEADER) or request.headers.get(SESSION_HEADER)
        return named or request.query_params.get("session_id")
    own = request.headers.get(SESSION_HEADER) or request.cookies.get(SESSION_COOKIE)
    return own or request.headers.get(ORS_HEADER)


def _is_of_agent(scope: Scope) -> bool:
    """Whether it is an HTTP request to ``/mcp``, whose session may also be named in its body."""
    path: str = scope.get("path", "")
    return scope["type"] == "http" and path.removeprefix(scope.get("root_path", "")) == "/mcp"


def _session_of_socket(scope: Scope) -> str | None:
    """The session that a socket attaches to or, on v1, some session of those that its client is going to take up."""
    query: dict[str, list[str]] = parse_qs(scope["query_string"].decode("latin-1"))
    if "session_id" in query:
        return query["session_id"][0]
    named: str | None = HTTPConnection(scope).headers.get(SESSION_HEADER) if _speaks_v1(scope) else None
    return named


def _speaks_v1(scope: Scope) -> bool:
    return V1 in scope.get("subprotocols", ())


def _encode_bytes(value: Any) -> dict[str, str]:
    return {_BYTES: b64encode(value).decode()}


def _revive_bytes(value: dict[str, Any]) -> Any:
    return b64decode(value[_BYTES]) if value.keys() == {_BYTES} else value
