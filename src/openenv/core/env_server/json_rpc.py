"""The public dialect of MCP: JSON-RPC requests that list and call tools, without MCP's handshake.

They come as the body of ``POST /mcp``, over the WebSocket ``/mcp``, and in messages of type ``mcp`` on ``/ws``. Agents
that speak MCP itself are served in ``mcp/``.
"""

import logging
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from openenv.core.env_server.disclosure import add_traceback, message_of
from openenv.core.env_server.mcp_types import JsonRpcErrorCode, JsonRpcRequest, JsonRpcResponse, McpMethod, Tool
from openenv.core.env_server.metrics import Transport
from openenv.core.env_server.protocol import error_data, error_json
from openenv.core.env_server.session import Session
from openenv.core.env_server.sessions import Sessions
from openenv.core.env_server.toolbox import ToolAnswer, Toolbox
from openenv.core.exceptions import (
    EnvironmentFactoryError,
    EnvironmentFailedError,
    RequestError,
    SessionCapacityError,
    SessionNotFoundError,
)

logger = logging.getLogger(__name__)

CREATE_SESSION = "openenv/session/create"
CLOSE_SESSION = "openenv/session/close"

REWARD = "openenv/reward"
"""Where the metadata of a tool's result has the reward."""

DONE = "openenv/done"
"""Where it says whether the episode has ended."""

_LONGEST_ECHO = 100
# What the public server sends with these errors, and nothing else.
_PLAIN_DETAILS = (SessionCapacityError, EnvironmentFactoryError)


def parse(text: str | bytes) -> Any:
    """Read JSON; ``None`` for what is none, or an array: JSON-RPC's batches are not taken.

    Args:
        text: JSON.
    """
    try:
        document = from_json(text)
    except ValueError:
        return None
    return None if isinstance(document, list) else document


def parse_error(detail: str | None = None) -> JsonRpcResponse:
    """Answer what is no JSON, or an array."""
    return JsonRpcResponse.error_response(JsonRpcErrorCode.PARSE_ERROR, detail)


def read_request(document: Any) -> JsonRpcRequest | JsonRpcResponse:
    """Read a request; what is none gets an answer instead."""
    try:
        return JsonRpcRequest.model_validate(document)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"])) or "request"
        message = f"Invalid request: {where[:_LONGEST_ECHO]}: {fault['msg']}"
        return JsonRpcResponse.error_response(JsonRpcErrorCode.INVALID_REQUEST, message)


async def answer_document(session: Session, document: Any) -> str:
    """Answer what a client sent for a session, which may be no request at all.

    Args:
        session: The session.
        document: JSON, already read.

    Returns:
        The response, as JSON.
    """
    request = read_request(document)
    if isinstance(request, JsonRpcRequest):
        request = await answer_request(session, request)
    return response_json(request)


async def answer_request(session: Session, request: JsonRpcRequest) -> JsonRpcResponse:
    """List a session's tools, or call one."""
    try:
        match request.method:
            case McpMethod.TOOLS_LIST:
                tools = await session.toolbox.tools(session)
                return JsonRpcResponse.success({"tools": [_tool(tool) for tool in tools]}, request.id)
            case McpMethod.TOOLS_CALL:
                return await _call_tool(session, request)
    except RequestError as error:
        if session.debug:
            add_traceback(error)
        return failed(error, request.id)
    except Exception as error:  # of the author's models, on reading a call or an outcome; it is this session's alone
        logger.exception(
            "the models of an environment raised, in a %s", request.method, extra={"session": session.name}
        )
        return failed(EnvironmentFailedError(message_of(error)), request.id)
    return unknown_method(request)


def answer_without_session(toolbox: Toolbox, request: JsonRpcRequest) -> JsonRpcResponse | None:
    """List the tools for nobody in particular; ``None`` where it takes a session to answer the request."""
    if request.method != McpMethod.TOOLS_LIST or toolbox.same_for_all is None:
        return None
    return JsonRpcResponse.success({"tools": [_tool(tool) for tool in toolbox.same_for_all]}, request.id)


async def _call_tool(session: Session, request: JsonRpcRequest) -> JsonRpcResponse:
    name, arguments = request.params.get("name"), request.params.get("arguments")
    if not isinstance(name, str) or not name:
        return invalid_params("Missing 'name' in params", request.id)
    if not isinstance(arguments, dict | None):
        return invalid_params("Expected 'arguments' to be an object", request.id)
    await session.begin({})
    answer = await session.toolbox.call(session, name, arguments or {})
    if answer.error is not None:
        error = JsonRpcErrorCode.INTERNAL_ERROR
        return JsonRpcResponse.error_response(error, answer.error.message, request_id=request.id)
    return JsonRpcResponse.success(_result(answer), request.id)


class SessionMethods:
    """``openenv/session/create`` and ``close``: sessions that a program holds by their id, on any connection.

    Args:
        sessions: Where they are opened.
    """

    # A program that does not use its session for so long has gone, unless the server says otherwise.
    _IDLE_TIMEOUT_S = 900.0

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def create(self, request: JsonRpcRequest, client: str) -> JsonRpcResponse:
        """Open a session, which is reset by whoever attaches to it, or with its first tool call.

        Args:
            request: The request.
            client: Who holds it, as in ``clients.client_of``.
        """
        idle_s = self._sessions.limits.idle_timeout_s or self._IDLE_TIMEOUT_S
        try:
            session = await self._sessions.open(client=client, transport=Transport.MCP, idle_timeout_s=idle_s)
        except RequestError as error:
            return failed(error, request.id)
        return JsonRpcResponse.success({"session_id": session.id}, request.id)

    def close(self, request: JsonRpcRequest) -> JsonRpcResponse:
        """End a session; one that a socket is attached to, as soon as that has gone."""
        session = self.named(request)
        if session is None:
            return invalid_params("Invalid params - 'session_id' is required", request.id)
        if isinstance(session, JsonRpcResponse):
            return session
        if session.attached:
            session.ends_detached = True
            return JsonRpcResponse.success({"session_id": session.id, "closed": False, "closing": True}, request.id)
        self._sessions.close(session)
        return JsonRpcResponse.success({"session_id": session.id, "closed": True}, request.id)

    def named(self, request: JsonRpcRequest) -> Session | JsonRpcResponse | None:
        """Find the session that a request names; ``None`` where it names none, an answer where there is none such."""
        session_id = named_session(request)
        if session_id is None:
            return None
        try:
            session = self._sessions.get(session_id)
        except SessionNotFoundError as error:
            return invalid_params(error.message, request.id)
        session.take_up()
        return session


def named_session(request: JsonRpcRequest) -> str | None:
    """Return the id of the session that a request names, if it names any."""
    session_id = request.params.get("session_id")
    return None if session_id is None else str(session_id)[:_LONGEST_ECHO]


def unknown_method(request: JsonRpcRequest) -> JsonRpcResponse:
    """Answer a request for what there is not."""
    message = f"Method not found: {request.method[:_LONGEST_ECHO]}"
    return JsonRpcResponse.error_response(JsonRpcErrorCode.METHOD_NOT_FOUND, message, request_id=request.id)


def invalid_params(message: str, request_id: str | int | None) -> JsonRpcResponse:
    """Answer a request whose parameters don't fit."""
    return JsonRpcResponse.error_response(JsonRpcErrorCode.INVALID_PARAMS, message, request_id=request_id)


def failed(error: RequestError, request_id: str | int | None = None) -> JsonRpcResponse:
    """Answer a request that the session or the server could not carry out."""
    message, details = failure(error)
    return JsonRpcResponse.error_response(JsonRpcErrorCode.SERVER_ERROR, message, details, request_id)


def failure(error: RequestError) -> tuple[str, dict[str, Any]]:
    """Say what went wrong: a sentence, and the rest, which programs read."""
    details = error_data(error)
    message: str = details.pop("message")
    if isinstance(error, _PLAIN_DETAILS):
        del details["code"]
    return message, details


def response_json(response: JsonRpcResponse) -> str:
    """Write a response."""
    try:
        return to_json(response, inf_nan_mode="null").decode()
    except (ValueError, TypeError) as error:
        if response.error is not None:  # which quotes what can't be sent
            return error_json(response.model_dump())
        message = f"The result cannot be sent as JSON: {error}"
        internal = JsonRpcErrorCode.INTERNAL_ERROR
        return response_json(JsonRpcResponse.error_response(internal, message, request_id=response.id))


def blocks(answer: ToolAnswer) -> list[dict[str, Any]]:
    """Give what a tool call gave as MCP's blocks of content."""
    return answer.content or [{"type": "text", "text": answer.text, "annotations": None, "meta": None}]


def meta(answer: ToolAnswer) -> dict[str, Any] | None:
    """Say what a tool call did to the episode: its reward, and whether it has ended; ``None`` where it is neither."""
    tells = answer.reward is not None or answer.done
    return {REWARD: answer.reward, DONE: answer.done} if tells else None


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
        "meta": None,
        "execution": None,
    }


def _result(answer: ToolAnswer) -> Mapping[str, Any]:
    structured = answer.value if isinstance(answer.value, dict | None) else {"result": answer.value}
    return {
        "content": blocks(answer),
        "structured_content": structured,
        "meta": meta(answer),
        "data": answer.value,
        "is_error": False,
    }
