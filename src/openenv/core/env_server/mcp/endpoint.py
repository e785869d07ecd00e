"""Endpoint ``/mcp`` over HTTP, for agents that speak MCP and for programs that speak its public dialect.

A POST is in the public dialect unless it is ``initialize``, names an agent's session in its header, or accepts
``text/event-stream``. An agent that does not name that type gets JSON.
"""

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from openenv.core.env_server.access.peer import peer_address
from openenv.core.env_server.mcp.agent import Served
from openenv.core.env_server.mcp.dialect import (
    CLOSE_SESSION,
    CREATE_SESSION,
    SessionMethods,
    answer_request,
    answer_without_session,
    invalid_id,
    is_id,
    named_session,
    parse,
    parse_error,
    read_request,
    response_json,
)
from openenv.core.wire.mcp_types import JsonRpcRequest, JsonRpcResponse
from openenv.core.wire.names import AGENT_HEADER, FORWARD

if TYPE_CHECKING:
    from openenv.core.env_server.mcp.native import Connections

_STREAM = "text/event-stream"
_METHODS = ("POST", "DELETE")
_STREAM_METHODS = ("GET", *_METHODS)

_EXAMPLE = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
CALL: dict[str, Any] = {"requestBody": {"content": {"application/json": {"schema": {}, "example": _EXAMPLE}}}}
"""What the OpenAPI document says of a POST's body; MCP's own specification says the rest."""

ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {"schema": {}}, _STREAM: {"schema": {"type": "string"}}}},
    202: {"description": "It was a notification."},
}
"""What the OpenAPI document says of the answers to agents."""

_SESSION = {"name": "mcp-session-id", "in": "header", "required": True, "schema": {"type": "string", "minLength": 1}}
END: dict[str, Any] = {
    "parameters": [{**_SESSION, "description": "The session, as the answer to initialize names it."}]
}
"""What it says of a DELETE."""

NO_SESSION: dict[int | str, dict[str, Any]] = {
    400: {"description": "The request names no session."},
    404: {"description": "There is no such session."},
}
"""What it says of the refusals of a DELETE."""

CheckRate = Callable[[Request], Awaitable[None]]
"""Counts a request towards the client's rate limit."""


class McpEndpoint:
    """ASGI application at ``/mcp``.

    Args:
        served: Sessions and settings that the agents share.
        check_rate: Counts a request, and raises for one above the limit; ``None`` for no limit.

    Attributes:
        served: As above.
    """

    def __init__(self, served: Served, check_rate: CheckRate | None = None) -> None:
        self.served = served
        self._sessions = served.sessions
        self._check_rate = check_rate
        self._methods = SessionMethods(served.sessions)
        self._loading = asyncio.Lock()
        self._connections: Connections | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        if self._check_rate is not None:
            await self._check_rate(request)
        names_session = AGENT_HEADER in request.headers
        if request.method == "POST":
            try:
                body = await request.body()
            except ClientDisconnect:
                return
            await self._answer_post(request, body, send)
        elif request.method == "DELETE" or (request.method == "GET" and names_session):
            await (await self._native()).serve(_accepting_all(scope), receive, send, begins=False)
        else:
            headers = {"Allow": ", ".join(_STREAM_METHODS if names_session else _METHODS)}
            refusal = Response('{"detail":"Method Not Allowed"}', 405, headers, media_type="application/json")
            await refusal(scope, receive, send)

    async def call(self) -> None:
        """Answer a request of an agent, in JSON-RPC: MCP over streamable HTTP, or single requests without a stream."""

    async def end(self) -> None:
        """End an agent's session."""

    def end_streams(self) -> None:
        """End the streams, which would keep the ASGI server from shutting down."""
        if self._connections is not None:
            self._connections.end_streams()

    async def close(self) -> None:
        """Close all connections of agents; for the server's shutdown."""
        if self._connections is not None:
            await self._connections.close()

    async def _native(self) -> "Connections":
        """Import the protocol's SDK in a thread, while other clients are served."""
        async with self._loading:
            if self._connections is None:
                module = await asyncio.to_thread(import_module, "openenv.core.env_server.mcp.native")
                self._connections = module.Connections(self.served)
        return cast("Connections", self._connections)

    async def _answer_post(self, request: Request, body: bytes, send: Send) -> None:
        document = parse(body)
        begins = isinstance(document, dict) and document.get("method") == "initialize"
        if begins or _streams(request) or AGENT_HEADER in request.headers:
            await self._answer_native(request, document, body, send, begins=begins)
        else:
            await self._answer_dialect(request, document, body, send)

    async def _answer_native(self, request: Request, document: Any, body: bytes, send: Send, *, begins: bool) -> None:
        if not isinstance(document, dict):  # the SDK would log an error for some of these
            await _json(response_json(parse_error()), 400)(request.scope, request.receive, send)
            return
        if "method" in document and not is_id(document.get("id", 0)):  # the SDK would take it for a notification
            await _json(response_json(invalid_id()), 400)(request.scope, request.receive, send)
            return
        scope, body_again = _accepting_all(request.scope), _Again(body, request.receive).receive
        await (await self._native()).serve(scope, body_again, send, begins=begins, streams=_streams(request))

    async def _answer_dialect(self, request: Request, document: Any, body: bytes, send: Send) -> None:
        rpc = parse_error() if document is None else read_request(document)
        if isinstance(rpc, JsonRpcRequest):
            if await self._is_forwarded(rpc, request, body, send):
                return
            rpc = await self._carry_out(rpc, peer_address(request.scope))
        await _json(response_json(rpc))(request.scope, request.receive, send)

    async def _carry_out(self, rpc: JsonRpcRequest, client: str) -> JsonRpcResponse:
        if rpc.method == CREATE_SESSION:
            return await self._methods.create(rpc, client)
        if rpc.method == CLOSE_SESSION:
            return self._methods.close(rpc)
        session = self._methods.named(rpc)
        if isinstance(session, JsonRpcResponse):
            return session
        return await (self._answer_without_session(rpc, client) if session is None else answer_request(session, rpc))

    async def _answer_without_session(self, rpc: JsonRpcRequest, client: str) -> JsonRpcResponse:
        """Answer a request that names no session, in a fresh environment if it needs one."""
        answered = answer_without_session(self._sessions.common_tools, rpc)
        if answered is not None:
            return answered
        async with self._sessions.temporary_session(client) as session:
            return await answer_request(session, rpc)

    async def _is_forwarded(self, rpc: JsonRpcRequest, request: Request, body: bytes, send: Send) -> bool:
        """Forward a request to the worker that holds its session, if that is another worker."""
        forward: Any = request.scope.get(FORWARD)
        session_id = named_session(rpc)
        if forward is None or session_id is None:
            return False
        forwarded: bool = await forward(session_id, request.scope, _Again(body, request.receive).receive, send)
        return forwarded


class _Again:
    """ASGI ``receive`` of a body that was already read."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def receive(self) -> Message:
        body, self._body = self._body, None
        return await self._receive() if body is None else {"type": "http.request", "body": body, "more_body": False}


def _streams(request: Request) -> bool:
    """Return whether the client reads a stream of events."""
    return _STREAM in request.headers.get("accept", "")


def _accepting_all(scope: Scope) -> Scope:
    """Return the scope of a request that accepts what the SDK wants every client to accept."""
    headers = [(name, value) for name, value in scope["headers"] if name != b"accept"]
    return {**scope, "headers": [*headers, (b"accept", f"application/json, {_STREAM}".encode())]}


def _json(text: str, status: int = 200) -> Response:
    return Response(text, status, media_type="application/json")
