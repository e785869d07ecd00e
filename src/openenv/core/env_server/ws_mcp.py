"""The WebSocket ``/mcp``: a session for an agent that speaks the public dialect of MCP, see ``json_rpc.py``."""

from openenv.core.env_server.json_rpc import (
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
from openenv.core.env_server.mcp_types import JsonRpcErrorCode, JsonRpcRequest, JsonRpcResponse
from openenv.core.env_server.metrics import Transport
from openenv.core.env_server.protocol import read_json
from openenv.core.env_server.session import Session
from openenv.core.env_server.sessions import Sessions
from openenv.core.env_server.ws import Inbox, SocketTransport
from openenv.core.exceptions import InvalidRequestError, RequestError


class McpSocketTransport(SocketTransport):
    """Serves sockets, each of which has a session for as long as it is open.

    Args:
        sessions: Where sessions are opened.
        max_message_bytes: Longest message that is read, in bytes of UTF-8.
    """

    opens_as = Transport.MCP

    def __init__(self, sessions: Sessions, max_message_bytes: int) -> None:
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
