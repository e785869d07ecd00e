"""WebSocket transport at ``/mcp``: a session for an agent, in the public dialect of MCP, see ``mcp/dialect.py``."""

from typing import TypeAlias

from starlette.types import Receive, Scope, Send

from openenv.core.env_server.access.clients import ClientLimits
from openenv.core.env_server.access.peer import peer_address
from openenv.core.env_server.access.rate import Rate
from openenv.core.env_server.execution.runner import Started
from openenv.core.env_server.mcp.dialect import (
    SessionMethods,
    answer_request,
    failed,
    parse_error,
    read_request,
    response_json,
)
from openenv.core.env_server.metrics import Transport
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.websocket.endpoint import SocketTransport
from openenv.core.env_server.websocket.legacy import SingleSessionWire
from openenv.core.exceptions import InvalidRequestError, RequestError
from openenv.core.wire.bounded_json import read_json
from openenv.core.wire.mcp_types import JsonRpcRequest, JsonRpcResponse

Document: TypeAlias = JsonRpcRequest | JsonRpcResponse
"""Request, or the answer to an invalid one."""


class McpSocketTransport(SocketTransport):
    """Transport that opens a session for each socket, until the socket closes.

    Args:
        sessions: Opens the sessions.
        clients: Limits of the clients.
        max_message_bytes: Maximum length of a message, in bytes of UTF-8.
    """

    def __init__(self, sessions: SessionManager, clients: ClientLimits, max_message_bytes: int) -> None:
        super().__init__(sessions, clients, max_message_bytes)
        self._methods = SessionMethods(sessions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one socket, from handshake to close."""
        await receive()  # websocket.connect
        client = peer_address(scope)
        rate = self._clients.rate_of_socket(client)
        wire = McpWire(self._sessions, client, rate, methods=self._methods)
        await self._serve(wire, scope, receive, send)


class McpWire(SingleSessionWire[Document]):
    """Wire of a socket at ``/mcp``.

    Args:
        methods: Opens and closes sessions of agents.

    The others are those of ``SingleSessionWire``.
    """

    opens_as = Transport.MCP

    def __init__(
        self,
        sessions: SessionManager,
        client: str,
        rate: Rate | None,
        *,
        methods: SessionMethods,
    ) -> None:
        super().__init__(sessions, client, rate)
        self._methods = methods

    @staticmethod
    def _read(frame: str | None, max_bytes: int | None) -> Document:
        document = read_json(frame, max_bytes)
        if isinstance(document, list):
            raise InvalidRequestError("Expected one request, got an array.")
        return read_request(document)

    def _carry_out(self, request: Document | RequestError) -> Started[str | None]:
        if isinstance(request, RequestError):
            raise request
        return self._respond(request) if isinstance(request, JsonRpcRequest) else response_json(request)

    async def _respond(self, request: JsonRpcRequest) -> str:
        return response_json(await answer_request(self._session, request, self._methods))

    def _error_frame(self, error: RequestError) -> str:
        if isinstance(error, InvalidRequestError):
            return response_json(parse_error(f"Parse error: {error.message.removeprefix('Invalid JSON: ')}"))
        return response_json(failed(error))
