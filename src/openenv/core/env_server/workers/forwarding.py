"""Forwarding of calls to the worker that holds their session, and queries to all workers.

HTTP requests, and sockets that attach to a session, name their session; they may arrive at any worker. The stream
between two workers carries neither HTTP nor WebSocket but the ASGI call itself, its scope and its events: the worker
that holds the session runs its application as if the client had connected to that worker.

A query uses the same stream, as a call of a type that no ASGI server makes, so that each worker can answer
``/metrics`` and ``/sessions`` for the whole server.
"""

import asyncio
import json
import logging
import socket
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from typing import Any, Self
from urllib.parse import parse_qs

from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openenv.core.env_server.http.errors import answer_request_error
from openenv.core.exceptions import SessionNotFoundError
from openenv.core.wire.legacy import encode_error
from openenv.core.wire.names import (
    AGENT_HEADER,
    FORWARD,
    ORS_HEADER,
    SESSION_COOKIE,
    SESSION_HEADER,
    V1,
    worker_of,
)

logger = logging.getLogger(__name__)

# Key that no scope or event has, for bytes, which JSON has no form for.
_BYTES = "base64"
_SIZE_BYTES = 4
_READ_BYTES = 65536
_SERVICE_RESTART = 1012
_ABNORMAL_CLOSURE = 1006
# Keys of a scope that mean the same in another process.
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
_ACCEPTED: Message = {"type": "accepted"}
_QUERY = "openenv.query"
_ANSWER = "openenv.answer"
# Shorter than a monitoring system's timeout. A worker that takes longer is blocked by an environment.
_QUERY_TIMEOUT_S = 2.0


class Stream:
    """Stream of ASGI events between two workers.

    Args:
        reader: The stream from the other worker.
        writer: The stream to the other worker.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, connection: socket.socket) -> Self:
        """Create a stream over a connected Unix socket, which the stream owns from now on."""
        return cls(*await asyncio.open_unix_connection(sock=connection))

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
            ConnectionError: The other worker has closed its end.
        """
        text = json.dumps(event, default=_encode_bytes).encode()
        self._writer.write(len(text).to_bytes(_SIZE_BYTES) + text)
        await self._writer.drain()

    async def finish(self) -> None:
        """Close the stream once the other worker has closed its end; events that still arrive are dropped.

        To close the stream with unread data would reset it, and the other worker might miss the last events.
        """
        with suppress(ConnectionError):
            self._writer.write_eof()
            while await self._reader.read(_READ_BYTES):
                pass
        await self.close()

    def abort(self) -> None:
        """Close the stream at once, for both sides."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close the stream at once, for both sides, and wait until it is closed."""
        self.abort()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


Connect = Callable[[str], Awaitable[Stream]]
"""Function that opens a stream to the worker of a number."""


class Forwarder:
    """ASGI middleware that forwards calls for another worker's session.

    Args:
        app: The application of this worker.
        others: Numbers of the other workers.
        connect: Opens a stream to another worker, or to the worker that replaces it.
    """

    def __init__(self, app: ASGIApp, others: Collection[str], connect: Connect) -> None:
        self._app = app
        self._others = others
        self._connect = connect
        self._calls: set[_Call] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call here, or forward it."""
        session_id = named_session(scope) or ""
        worker = worker_of(session_id)
        if worker is None or worker not in self._others:
            await self._app({**scope, FORWARD: self.forward} if _is_of_agent(scope) else scope, receive, send)
        elif not await self.forward(session_id, scope, receive, send):
            # This application recovers the other worker's sessions from a journal, or answers that they have ended.
            await self._app(scope, receive, send)

    async def forward(self, session_id: str, scope: Scope, receive: Receive, send: Send) -> bool:
        """Forward a call to the worker of a session; return ``False`` where that worker is this one, or has ended."""
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
        """Close the event streams of agents, which would keep this worker from exiting."""
        for call in self._calls:
            call.end_stream()

    async def _carry(self, call: "_Call", receive: Receive, send: Send) -> None:
        self._calls.add(call)
        try:
            await call.carry(receive, send)
        finally:
            self._calls.discard(call)


async def answer_forwarded(app: ASGIApp, state: dict[str, Any], stream: Stream) -> None:
    """Answer a call that another worker has forwarded.

    Args:
        app: The application of this worker.
        state: State of the application's lifespan.
        stream: The stream from the other worker.
    """
    try:
        scope = await stream.receive()
        if scope is None:
            return
        await stream.send(_ACCEPTED)
        disconnect: Message = {"type": f"{scope['type']}.disconnect", "code": _ABNORMAL_CLOSURE}
        await app({**scope, "state": state.copy()}, partial(_receive_or, disconnect, stream), stream.send)
    except ConnectionError as error:
        logger.debug("the worker that forwarded a request has closed its socket: %s", error)
    except Exception:  # the other worker sees only that no answer comes
        logger.exception("the application raised")
    finally:
        await stream.finish()


class _CallState(Enum):
    """State of the answer to a forwarded call."""

    WAITING = auto()
    SOCKET_OPEN = auto()
    RESPONSE_OPEN = auto()
    COMPLETE = auto()

    @classmethod
    def after(cls, event: Message) -> "_CallState":
        """Return the state after an event of the answer."""
        match event["type"]:
            case "websocket.accept" | "websocket.send":
                return cls.SOCKET_OPEN
            case "http.response.start":
                return cls.RESPONSE_OPEN
            case _:
                return cls.RESPONSE_OPEN if event.get("more_body", False) else cls.COMPLETE


class _Call:
    """Call that another worker answers, with the id of its session."""

    def __init__(self, session_id: str, scope: Scope, stream: Stream) -> None:
        self._session_id = session_id
        self._scope = scope
        self._stream = stream
        self._state = _CallState.WAITING
        self._is_disconnected = False
        self._is_stream = _is_of_agent(scope) and scope["method"] == "GET"

    def end_stream(self) -> None:
        """Close an event stream, which the other worker would keep open for ever."""
        if self._is_stream:
            self._stream.abort()

    async def carry(self, receive: Receive, send: Send) -> None:
        """Copy the client's events to the other worker and its events back, until the answer is complete."""
        upwards = asyncio.create_task(self._carry_up(receive))
        try:
            while (event := await self._stream.receive()) is not None:
                self._state = _CallState.after(event)
                await send(event)
            if self._state in (_CallState.WAITING, _CallState.SOCKET_OPEN) and not self._is_disconnected:
                await self._fail(send)
            elif self._state is _CallState.RESPONSE_OPEN and self._is_stream:
                await send({"type": "http.response.body", "body": b""})
        except (OSError, RuntimeError) as error:  # which ASGI servers raise on a send to a client that has disconnected
            logger.debug("a client disconnected before its answer was sent: %s", error)
        finally:
            upwards.cancel()

    async def _carry_up(self, receive: Receive) -> None:
        with suppress(ConnectionError):  # carry() sees that the other worker has closed the stream
            while not self._is_disconnected:
                event = await receive()
                self._is_disconnected = event["type"].endswith(".disconnect")
                await self._stream.send(event)

    async def _fail(self, send: Send) -> None:
        """Answer a waiting client with an error, after the other worker has ended with its sessions."""
        error = SessionNotFoundError(self._session_id, "This session has ended; the process that held it was ended.")
        if self._scope["type"] == "http":
            await (await answer_request_error(Request(self._scope), error))(self._scope, _nothing, send)
            return
        is_waiting = self._state is _CallState.WAITING
        if is_waiting and _speaks_v1(self._scope):  # the client reconnects and attaches to its sessions again
            await send({"type": "websocket.accept", "subprotocol": V1})
        elif is_waiting:
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.send", "text": encode_error(error)})
        await send({"type": "websocket.close", "code": _SERVICE_RESTART})


async def _offer(scope: Scope, stream: Stream) -> bool:
    """Send a call to the worker that is to answer it; return ``False`` where that worker has ended."""
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
    """Return the id of the session that a call names, as the transports read it; ``None`` for no session.

    Args:
        scope: The ASGI scope of the call.
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
    """Return whether a call is an HTTP request to ``/mcp``, whose session may also be named in its body."""
    path: str = scope.get("path", "")
    return scope["type"] == "http" and path.removeprefix(scope.get("root_path", "")) == "/mcp"


def _session_of_socket(scope: Scope) -> str | None:
    """Return the session that a socket attaches to or, on v1, a session that its client is going to attach to."""
    query: dict[str, list[str]] = parse_qs(scope["query_string"].decode("latin-1"))
    if "session_id" in query:
        return query["session_id"][0]
    if not _speaks_v1(scope):
        return None
    # A page sets no header of a socket.
    return HTTPConnection(scope).headers.get(SESSION_HEADER) or query.get("session", [""])[0] or None


def _speaks_v1(scope: Scope) -> bool:
    return V1 in scope.get("subprotocols", ())


def _encode_bytes(value: Any) -> dict[str, str]:
    return {_BYTES: b64encode(value).decode()}


def _revive_bytes(value: dict[str, Any]) -> Any:
    return b64decode(value[_BYTES]) if value.keys() == {_BYTES} else value


class QueryMiddleware:
    """ASGI middleware that answers the queries of other workers.

    Args:
        app: The application of this worker, for all other calls.
        answer: Answers a query; query and answer are JSON.
    """

    def __init__(self, app: ASGIApp, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._app = app
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call."""
        if scope["type"] == _QUERY:
            await send({"type": _ANSWER, "answer": self._answer(scope["query"])})
        else:
            await self._app(scope, receive, send)


class OtherWorkers:
    """Queries to the other workers of a server.

    Args:
        numbers: Numbers of the other workers.
        connect: Opens a stream to a worker.
        timeout_s: Seconds to wait for an answer.
    """

    def __init__(self, numbers: Collection[str], connect: Connect, timeout_s: float = _QUERY_TIMEOUT_S) -> None:
        self._numbers = sorted(numbers)
        self._connect = connect
        self._timeout_s = timeout_s

    async def query(self, query: dict[str, Any]) -> Mapping[str, dict[str, Any] | None]:
        """Send a query to all other workers at once.

        Returns:
            The answers by the workers' numbers; ``None`` for a worker that has died, or gave no answer in time.
        """
        answers = await asyncio.gather(*(self._query(number, query) for number in self._numbers))
        return dict(zip(self._numbers, answers, strict=True))

    async def _query(self, number: str, query: dict[str, Any]) -> dict[str, Any] | None:
        stream = await self._connect(number)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await _answer_over(stream, query)
        except (TimeoutError, ConnectionError):
            return None
        finally:
            await stream.close()


async def _answer_over(stream: Stream, query: dict[str, Any]) -> dict[str, Any] | None:
    await stream.send({"type": _QUERY, "query": query})
    while (event := await stream.receive()) is not None:
        if event["type"] == _ANSWER:
            answer: dict[str, Any] = event["answer"]
            return answer
    return None
