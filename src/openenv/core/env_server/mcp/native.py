"""Streamable HTTP of MCP: connections of agents, each with requests, an optional stream, and a session of its own.

A connection begins with ``initialize``; later requests name it in the header ``Mcp-Session-Id``. It ends on the agent's
``DELETE``, when its session ends, or after the idle timeout without a request. An agent whose stream broke may have
disconnected: its session is evictable until the agent's next request.
"""

import asyncio
import logging
import signal
import time
from collections.abc import Callable

import anyio
import uvicorn
from mcp.server.streamable_http import StreamableHTTPServerTransport
from sse_starlette.sse import AppStatus
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from openenv.core.env_server.access.peer import peer_address
from openenv.core.env_server.mcp.agent import Agent, Served, task_of
from openenv.core.env_server.mcp.dialect import response_json
from openenv.core.env_server.mcp.handlers import Requests
from openenv.core.env_server.metrics import Ending
from openenv.core.exceptions import InvalidRequestError
from openenv.core.wire.mcp_types import JsonRpcErrorCode, JsonRpcResponse
from openenv.core.wire.names import AGENT_HEADER, SESSION_HEADER

logger = logging.getLogger(__name__)

# Bounds memory: an agent without an episode holds no slot, but some memory.
_MOST_CONNECTIONS = 10_000
# Seconds for the open requests of a connection to finish after it has ended.
_END_TIMEOUT_S = 5.0
# Seconds between checks for a shutdown of the ASGI server, which notifies applications only after all streams ended.
_LOOK_EVERY_S = 0.25


class _NeverSet(anyio.Event):
    """Replacement for an event of sse-starlette 2, by which streams wait for the server's end, on one event loop only.

    Streams are ended here, on any loop and not while a server drains. sse-starlette 3 has no such event, but the
    openreward package pins 2.3.6, and both may be installed.
    """

    def __new__(cls) -> "_NeverSet":
        return object.__new__(cls)

    def set(self) -> None:
        """Do nothing."""

    async def wait(self) -> None:
        """Wait for ever."""
        await anyio.sleep_forever()


AppStatus.should_exit_event = _NeverSet()


class Connections:
    """Connections of a server's agents.

    Args:
        served: Sessions and settings that the agents share.
    """

    def __init__(self, served: Served) -> None:
        self._served = served
        self._connections: dict[str, Connection] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._server_ends = False
        self._looking: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._connections)

    async def serve(self, scope: Scope, receive: Receive, send: Send, *, begins: bool, streams: bool = True) -> None:
        """Answer an HTTP request.

        Args:
            scope: ASGI's description of the request.
            receive: Receives the request's body.
            send: Sends the answer.
            begins: Whether the request is ``initialize``, which begins a connection.
            streams: Whether the client reads a stream of events; else it gets JSON.
        """
        request = Request(scope)
        name = request.headers.get(AGENT_HEADER)
        if self._server_ends and (name is None or request.method == "GET"):
            await _refusal(503, "The server is about to end.")(scope, receive, send)
        elif name is not None and name in self._connections:
            await self._serve(self._connections[name], scope, receive, send, streams=streams)
        elif name is not None:
            await _refusal(404, "There is no such session (any more). Connect again.")(scope, receive, send)
        elif not begins:
            message = f"Expected the header {AGENT_HEADER}, or the request `initialize`, with which a session begins."
            await _refusal(400, message)(scope, receive, send)
        elif len(self._connections) >= _MOST_CONNECTIONS:
            await _refusal(503, f"{_MOST_CONNECTIONS} agents are connected, and no more may be.")(scope, receive, send)
        else:
            await self._begin(request, receive, send, streams=streams)

    def end_streams(self) -> None:
        """End the streams, and accept no further agents; requests of others are still answered."""
        self._server_ends = True
        for connection in self._connections.values():
            connection.end_streams()

    async def close(self) -> None:
        """Close all connections, with their sessions; for the server's shutdown."""
        for connection in list(self._connections.values()):
            self.end(connection, Ending.SHUTDOWN)
        if self._ending:
            await asyncio.wait(self._ending)
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        self._server_ends = False

    def end(self, connection: "Connection", ending: Ending) -> None:
        """Remove a connection and end it."""
        if self._connections.pop(connection.name, None) is None:
            return
        task = asyncio.get_running_loop().create_task(connection.end(ending))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _serve(
        self, connection: "Connection", scope: Scope, receive: Receive, send: Send, *, streams: bool
    ) -> None:
        if scope["method"] != "DELETE":
            await connection.serve(scope, receive, send, streams=streams)
            return
        self._connections.pop(connection.name, None)
        await connection.end(Ending.CLOSED)  # before the answer: the agent may reconnect at once
        await Response(status_code=200)(scope, receive, send)

    async def _begin(self, request: Request, receive: Receive, send: Send, *, streams: bool) -> None:
        query = request.query_params
        session_id = request.headers.get(SESSION_HEADER) or query.get("session_id")
        try:
            task = task_of(query)
        except InvalidRequestError as error:
            await _refusal(400, error.message)(request.scope, receive, send)
            return
        agent = Agent(self._served, peer_address(request.scope), task, session_id)
        connection = Connection(self._served.sessions.new_connection_id(), agent, self._served, self.end)
        self._connections[connection.name] = connection
        if self._looking is None:
            self._look()
        answer = _Watched(send)
        try:
            await connection.begin()
            await connection.serve(request.scope, receive, answer.send, streams=streams)
        finally:
            if not answer.succeeded:
                self.end(connection, Ending.DISCONNECTED)

    def _look(self) -> None:
        """End the streams once uvicorn shuts down."""
        owner = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
        if isinstance(owner, uvicorn.Server) and owner.should_exit:
            self.end_streams()
        again = self._connections and not self._server_ends
        self._looking = asyncio.get_running_loop().call_later(_LOOK_EVERY_S, self._look) if again else None


class Connection:
    """Connection of one agent.

    Args:
        name: Id of the connection, a secret of its agent.
        agent: The agent.
        served: Sessions and settings of the server.
        end: Called with the reason when the connection has to end.

    Attributes:
        name: As above.
    """

    def __init__(self, name: str, agent: Agent, served: Served, end: Callable[["Connection", Ending], None]) -> None:
        self.name = name
        self._agent = agent
        self._end = end
        self._idle_timeout_s = served.idle_timeout_s
        self._server = Requests(agent, served).server
        # The SDK need not check hosts and origins: the guard before the application does.
        self._transport = StreamableHTTPServerTransport(mcp_session_id=name)
        self._streams: set[asyncio.Task[None]] = set()
        self._requests = 0
        self._last_request = time.monotonic()
        self._running: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        agent.on_end = self._session_ended

    async def begin(self) -> None:
        """Start the SDK's server, ready for requests."""
        ready = asyncio.Event()
        self._running = asyncio.get_running_loop().create_task(self._run(ready))
        self._running.add_done_callback(self._ran)
        await ready.wait()
        self._watch_idle()

    async def serve(self, scope: Scope, receive: Receive, send: Send, *, streams: bool) -> None:
        """Answer an HTTP request, as JSON unless the client reads a stream of events."""
        if scope["method"] == "GET":
            await self._serve_stream(scope, receive, send)
            return
        self._heard()
        self._requests += 1
        # The SDK reads this before it waits for anything, so that requests at the same time do not mix.
        self._transport.is_json_response_enabled = not streams
        try:
            await self._transport.handle_request(scope, receive, send)
        finally:
            self._requests -= 1
            self._heard()

    def end_streams(self) -> None:
        """End the streams that carry no answer to a request."""
        for stream in self._streams:
            stream.cancel()

    async def end(self, ending: Ending) -> None:
        """End the connection and its session; open requests are cancelled."""
        if self._timer is not None:
            self._timer.cancel()
        self._agent.close(ending)
        if self._streams:  # first: the SDK logs an error for streams that are open when it ends
            self.end_streams()
            await asyncio.wait(self._streams)
        await self._transport.terminate()
        if self._running is not None:
            _, hanging = await asyncio.wait([self._running], timeout=_END_TIMEOUT_S)
            for task in hanging:
                task.cancel()

    async def _run(self, ready: asyncio.Event) -> None:
        async with self._transport.connect() as (reading, writing):
            ready.set()
            await self._server.run(reading, writing, self._server.create_initialization_options())

    def _ran(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("an agent can't be served any more", exc_info=error)
        self._end(self, Ending.CLOSED if error is None else Ending.FAILED)

    async def _serve_stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Keep a stream open until the agent or the server ends it."""
        answer = _Watched(send)
        self._agent.keep()
        stream = asyncio.get_running_loop().create_task(self._transport.handle_request(scope, receive, answer.send))
        self._streams.add(stream)
        try:
            await asyncio.wait([stream])
        finally:
            stream.cancel()  # the server has stopped waiting
            self._streams.discard(stream)
            if not self._streams and not self._requests:
                self._agent.let_yield()
        await answer.finish()

    def _heard(self) -> None:
        self._last_request = time.monotonic()
        self._agent.keep()

    def _session_ended(self) -> None:
        self._end(self, Ending.CLOSED)

    def _watch_idle(self) -> None:
        idle_s = 0.0 if self._requests else time.monotonic() - self._last_request
        if idle_s >= self._idle_timeout_s:
            logger.info("an agent was disconnected after %.0f s without a request", idle_s)
            self._end(self, Ending.IDLE)
            return
        remaining_s = self._idle_timeout_s - idle_s
        self._timer = asyncio.get_running_loop().call_later(remaining_s, self._watch_idle)


class _Watched:
    """ASGI ``send`` that records how much of an answer was sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._status: int | None = None
        self._finished = False

    @property
    def succeeded(self) -> bool:
        return self._status is not None and self._status < 400

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        else:
            self._finished = not message.get("more_body", False)
        await self._send(message)

    async def finish(self) -> None:
        """Complete an answer that was cut off; an ASGI server logs an error otherwise."""
        if self._status is not None and not self._finished:
            await self._send({"type": "http.response.body", "body": b""})


def _refusal(status: int, message: str) -> Response:
    answer = JsonRpcResponse.error_response(JsonRpcErrorCode.INVALID_REQUEST, message)
    return Response(response_json(answer), status, media_type="application/json")
