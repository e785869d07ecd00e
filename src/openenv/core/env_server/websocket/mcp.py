"""WebSocket transport at ``/mcp``: a session for an agent, in the public dialect of MCP, see ``mcp/dialect.py``."""

from openenv.core.env_server.mcp.dialect import (
    CLOSE_SESSION,
    CREATE_SESSION,
    SessionMethods,
    answer_request,
    failed,
    named_session,
    parse_error,
    read_request,
    response_json,
)
from openenv.core.env_server.metrics import Transport
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.websocket.endpoint import Inbox, SocketTransport
from openenv.core.exceptions import InvalidRequestError, RequestError
from openenv.core.wire.bounded_json import read_json
from openenv.core.wire.mcp_types import JsonRpcErrorCode, JsonRpcRequest, JsonRpcResponse


class McpSocketTransport(SocketTransport):
    """Transport that opens a session for each socket, until the socket closes.

    Args:
        sessions: Opens the sessions.
        max_message_bytes: Maximum length of a message, in bytes of UTF-8.
    """

    opens_as = Transport.MCP

    def __init__(self, sessions: SessionManager, max_message_bytes: int) -> None:
        super().__init__(sessions, max_message_bytes)
        self._methods = SessionMethods(sessions)

    def _error_frame(self, error: RequestError) -> str:
        if isinstance(error, InvalidRequestError):
            return response_json(parse_error(f"Parse error: {error.message.removeprefix('Invalid JSON: ')}"))
        return response_json(failed(error))

    async def _answer(self, session: Session, text: str | None, inbox: Inbox) -> str:
        document = read_json(text, self._max_message_bytes)
        if isinstance(document, list):
            raise InvalidRequestError("Expected one request, got an array.")
        request = read_request(document)
        if isinstance(request, JsonRpcRequest):
            request = await self._watched(self._carry_out(session, request), inbox)
        return response_json(request)

    async def _carry_out(self, session: Session, request: JsonRpcRequest) -> JsonRpcResponse:
        if request.method == CREATE_SESSION:
            return JsonRpcResponse.success({"session_id": session.id}, request.id)
        if request.method == CLOSE_SESSION and named_session(request) == session.id:
            message = "Invalid request: this socket's own session ends with the socket"
            return JsonRpcResponse.error_response(JsonRpcErrorCode.INVALID_REQUEST, message, request_id=request.id)
        if request.method == CLOSE_SESSION:
            return self._methods.close(request)
        return await answer_request(session, request)
