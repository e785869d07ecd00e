"""Public dialect of MCP: JSON-RPC requests that list and call tools, without MCP's handshake.

The requests arrive as the body of ``POST /mcp``, over the WebSocket ``/mcp``, and in messages of type ``mcp`` on
``/ws``. MCP itself is served by ``native.py`` and ``stdio.py``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from openenv.core.env_server.metrics import Transport
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.sessions.state import SessionState
from openenv.core.env_server.toolbox.toolbox import ERROR_CODES, ToolCallResult
from openenv.core.exceptions import (
    EnvironmentFactoryError,
    RequestError,
    SessionCapacityError,
    SessionNotFoundError,
)
from openenv.core.wire.errors import error_data, error_json
from openenv.core.wire.mcp_types import JsonRpcErrorCode, JsonRpcRequest, JsonRpcResponse, ListedTool, McpMethod, Tool
from openenv.core.wire.results import REWARD_SIGNALS

CREATE_SESSION = "openenv/session/create"
CLOSE_SESSION = "openenv/session/close"

REWARD = "openenv/reward"
"""Key of the reward in the metadata of a tool's result."""

DONE = "openenv/done"
"""Key of the done flag in the metadata of a tool's result."""

REWARD_COMPONENTS = "openenv/reward_components"
"""Key of the scores of the reward's components in the metadata of a tool's result, where there are any."""

_LONGEST_ECHO = 100
_NO_NAME = "Invalid params - 'session_id' is required"
# As on the public server, the data of these errors has no code.
_PLAIN_DETAILS = (SessionCapacityError, EnvironmentFactoryError)


def parse(text: str | bytes) -> Any:
    """Parse JSON; ``None`` for invalid JSON and for an array: JSON-RPC's batches are not supported.

    Args:
        text: JSON.
    """
    try:
        document = from_json(text)
    except ValueError:
        return None
    return None if isinstance(document, list) else document


def parse_error(detail: str | None = None) -> JsonRpcResponse:
    """Return the answer to invalid JSON, or to an array."""
    return JsonRpcResponse.error_response(JsonRpcErrorCode.PARSE_ERROR, detail)


def is_id(value: Any) -> bool:
    """Return whether a value can be the id of a request of MCP."""
    return type(value) in (str, int)


def invalid_id() -> JsonRpcResponse:
    """Return the answer to a request with an id that is none, of which MCP's own specification allows none."""
    message = "Invalid request: id: expected a text or a whole number; a notification has no id"
    return JsonRpcResponse.error_response(JsonRpcErrorCode.INVALID_REQUEST, message)


def read_request(document: Any) -> JsonRpcRequest | JsonRpcResponse:
    """Return the request in a document, or the answer to an invalid one."""
    try:
        return JsonRpcRequest.model_validate(document)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"])) or "request"
        message = f"Invalid request: {where[:_LONGEST_ECHO]}: {fault['msg']}"
        return JsonRpcResponse.error_response(JsonRpcErrorCode.INVALID_REQUEST, message)


async def answer_document(session: Session, document: Any, methods: "SessionMethods | None" = None) -> str:
    """Answer a document that a client sent for a session, which may be an invalid request.

    Args:
        session: The session.
        document: JSON, already parsed.
        methods: Closes other sessions; ``None`` knows none.

    Returns:
        The response, as JSON.
    """
    request = read_request(document)
    if isinstance(request, JsonRpcRequest):
        request = await answer_request(session, request, methods)
    return response_json(request)


async def answer_request(
    session: Session, request: JsonRpcRequest, methods: "SessionMethods | None" = None
) -> JsonRpcResponse:
    """List a session's tools, or call one; or answer for a connection that holds the session.

    Args:
        session: The session.
        request: The request.
        methods: Closes other sessions; ``None`` knows none.
    """
    if request.method == CREATE_SESSION:
        return JsonRpcResponse.success({"session_id": session.id}, request.id)
    if request.method == CLOSE_SESSION:
        return _close_from(session, request, methods)
    try:
        with session.request_errors(request.method):
            match request.method:
                case McpMethod.TOOLS_LIST:
                    tools = await session.tools.list()
                    return JsonRpcResponse.success({"tools": [_tool(tool) for tool in tools]}, request.id)
                case McpMethod.TOOLS_CALL:
                    return await _call_tool(session, request)
    except RequestError as error:
        session.count_error(error.code)
        return failed(error, request.id)
    return unknown_method(request)


def _close_from(session: Session, request: JsonRpcRequest, methods: "SessionMethods | None") -> JsonRpcResponse:
    """Close another session than that of the connection that requests it."""
    name = named_session(request)
    if name == session.id:
        message = "Invalid request: this connection's own session ends with the connection"
        return JsonRpcResponse.error_response(JsonRpcErrorCode.INVALID_REQUEST, message, request_id=request.id)
    if methods is None and name is not None:
        return invalid_params(f"Unknown session_id: {name}", request.id)
    return invalid_params(_NO_NAME, request.id) if methods is None else methods.close(request)


def answer_without_session(common_tools: Sequence[Tool] | None, request: JsonRpcRequest) -> JsonRpcResponse | None:
    """List the tools that every session has; ``None`` if only a session can answer the request.

    Args:
        common_tools: The tools; ``None`` if they depend on the session.
        request: The request.
    """
    if request.method != McpMethod.TOOLS_LIST or common_tools is None:
        return None
    return JsonRpcResponse.success({"tools": [_tool(tool) for tool in common_tools]}, request.id)


async def _call_tool(session: Session, request: JsonRpcRequest) -> JsonRpcResponse:
    name, arguments = request.params.get("name"), request.params.get("arguments")
    if not isinstance(name, str) or not name:
        return invalid_params("Missing 'name' in params", request.id)
    if not isinstance(arguments, dict | None):
        return invalid_params("Expected 'arguments' to be an object", request.id)
    await session.begin({})
    answer = await session.tools.call(name, arguments or {})
    if answer.error is not None:
        session.count_error(ERROR_CODES[answer.error.error_type])
        error = JsonRpcErrorCode.INTERNAL_ERROR
        return JsonRpcResponse.error_response(error, answer.error.message, request_id=request.id)
    return JsonRpcResponse.success(_result(answer), request.id)


class SessionMethods:
    """Methods ``openenv/session/create`` and ``close``: sessions that a program names by id, on any connection.

    Args:
        sessions: Opens the sessions.
    """

    # Default idle timeout of these sessions, in seconds.
    _IDLE_TIMEOUT_S = 900.0

    def __init__(self, sessions: SessionManager) -> None:
        self._sessions = sessions

    async def create(self, request: JsonRpcRequest, client: str) -> JsonRpcResponse:
        """Open a session, which is reset by the client that attaches to it, or by its first tool call.

        Args:
            request: The request.
            client: Address of the client, from ``access.peer.peer_address``.
        """
        idle_s = self._sessions.limits.idle_timeout_s or self._IDLE_TIMEOUT_S
        try:
            session = await self._sessions.open(client=client, transport=Transport.MCP, idle_timeout_s=idle_s)
        except RequestError as error:
            self._sessions.metrics.errors[error.code] += 1
            return failed(error, request.id)
        return JsonRpcResponse.success({"session_id": session.id}, request.id)

    def close(self, request: JsonRpcRequest) -> JsonRpcResponse:
        """Close a session; if a socket is attached to it, when that socket closes."""
        session = self.named(request)
        if session is None:
            return invalid_params(_NO_NAME, request.id)
        if isinstance(session, JsonRpcResponse):
            return session
        if session.status in (SessionState.ATTACHED, SessionState.CLOSING):
            session.close_soon()
            return JsonRpcResponse.success({"session_id": session.id, "closed": False, "closing": True}, request.id)
        self._sessions.close(session)
        return JsonRpcResponse.success({"session_id": session.id, "closed": True}, request.id)

    def named(self, request: JsonRpcRequest) -> Session | JsonRpcResponse | None:
        """Return the session that a request names; ``None`` without a name, an error answer for an unknown session."""
        session_id = named_session(request)
        if session_id is None:
            return None
        try:
            session = self._sessions.get(session_id)
        except SessionNotFoundError as error:
            return invalid_params(error.message, request.id)
        session.resume()
        return session


def named_session(request: JsonRpcRequest) -> str | None:
    """Return the id of the session that a request names; ``None`` without a name."""
    session_id = request.params.get("session_id")
    return None if session_id is None else str(session_id)[:_LONGEST_ECHO]


def unknown_method(request: JsonRpcRequest) -> JsonRpcResponse:
    """Return the answer to a request with an unknown method."""
    message = f"Method not found: {request.method[:_LONGEST_ECHO]}"
    return JsonRpcResponse.error_response(JsonRpcErrorCode.METHOD_NOT_FOUND, message, request_id=request.id)


def invalid_params(message: str, request_id: str | int | None) -> JsonRpcResponse:
    """Return the answer to a request with invalid parameters."""
    return JsonRpcResponse.error_response(JsonRpcErrorCode.INVALID_PARAMS, message, request_id=request_id)


def failed(error: RequestError, request_id: str | int | None = None) -> JsonRpcResponse:
    """Return the answer to a request that failed in the session or the server."""
    message, details = failure(error)
    return JsonRpcResponse.error_response(JsonRpcErrorCode.SERVER_ERROR, message, details, request_id)


def failure(error: RequestError) -> tuple[str, dict[str, Any]]:
    """Return an error's message and, for programs, its data."""
    details = error_data(error)
    message: str = details.pop("message")
    if isinstance(error, _PLAIN_DETAILS):
        del details["code"]
    return message, details


def response_json(response: JsonRpcResponse) -> str:
    """Return a response as JSON."""
    try:
        return to_json(response, inf_nan_mode="null").decode()
    except (ValueError, TypeError) as error:
        if response.error is not None:  # the error quotes a value that has no JSON form
            return error_json(response.model_dump())
        message = f"The result cannot be sent as JSON: {error}"
        internal = JsonRpcErrorCode.INTERNAL_ERROR
        return response_json(JsonRpcResponse.error_response(internal, message, request_id=response.id))


def blocks(answer: ToolCallResult) -> list[dict[str, Any]]:
    """Return the result of a tool call as MCP's blocks of content."""
    return answer.content or [{"type": "text", "text": answer.text, "annotations": None, "meta": None}]


def meta(answer: ToolCallResult) -> dict[str, Any] | None:
    """Return the reward, its components and the done flag of a tool call as metadata; ``None`` if there are none.

    What scores rest on is left out: the prompt of a judge may hold the solution, and the caller may be the agent.
    """
    components = answer.metadata.get(REWARD_SIGNALS)
    if answer.reward is None and not answer.done and not components:
        return None
    outcome = {REWARD: answer.reward, DONE: answer.done}
    return {**outcome, REWARD_COMPONENTS: components} if components else outcome


def _tool(tool: Tool) -> dict[str, Any]:
    # With all keys that the public server sends.
    return {
        "name": tool.name,
        "title": None,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": None,
        "icons": None,
        "annotations": None,
        "meta": tool.meta if isinstance(tool, ListedTool) else None,
        "execution": None,
    }


def _result(answer: ToolCallResult) -> Mapping[str, Any]:
    structured = answer.value if isinstance(answer.value, dict | None) else {"result": answer.value}
    return {
        "content": blocks(answer),
        "structured_content": structured,
        "meta": meta(answer),
        "data": answer.value,
        "is_error": False,
    }
