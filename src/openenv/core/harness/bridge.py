"""A session's tools for a harness that speaks MCP, in the same process."""

from typing import Any

from openenv.core.exceptions import RequestRejectedError
from openenv.core.harness.session import ResourceSession
from openenv.core.wire.mcp_types import RESERVED_TOOL_NAMES, JsonRpcErrorCode, JsonRpcResponse


class _BadRequestError(Exception):
    """A request that gets an error as its response.

    Args:
        code: Code of the error.
        message: Its message; by default the code's own.
    """

    def __init__(self, code: JsonRpcErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class SessionMCPBridge:
    """Answers MCP's ``tools/list`` and ``tools/call`` with the tools of a session.

    Args:
        session: The session.
    """

    def __init__(self, session: ResourceSession) -> None:
        self.session = session

    def handle_request(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON-RPC response to a request.

        Args:
            request: The JSON-RPC request.
        """
        request_id = request.get("id")
        try:
            result = self._result(request)
        except _BadRequestError as error:
            response = JsonRpcResponse.error_response(error.code, error.message, request_id=request_id)
        except Exception as error:  # noqa: BLE001  # a tool may raise anything, and its harness waits for a response
            response = JsonRpcResponse.error_response(
                JsonRpcErrorCode.INTERNAL_ERROR, f"{type(error).__name__}: {error}", request_id=request_id
            )
        else:
            response = JsonRpcResponse.success(result, request_id=request_id)
        return response.model_dump()

    def _result(self, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("jsonrpc") != "2.0":
            raise _BadRequestError(JsonRpcErrorCode.INVALID_REQUEST)
        match request.get("method"):
            case "tools/list":
                return {"tools": self._tools()}
            case "tools/call":
                return self._call(request.get("params") or {})
        raise _BadRequestError(JsonRpcErrorCode.METHOD_NOT_FOUND)

    def _tools(self) -> list[dict[str, Any]]:
        return [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
            for tool in self.session.list_tools()
        ]

    def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        name = params.get("name")
        if not isinstance(name, str):
            raise _BadRequestError(JsonRpcErrorCode.INVALID_PARAMS, "params.name must be the name of a tool")
        if name in RESERVED_TOOL_NAMES:
            raise _BadRequestError(JsonRpcErrorCode.INVALID_PARAMS, f"{name!r} is reserved for the trainer")
        names = [tool.name for tool in self.session.list_tools()]
        if name not in names:
            message = f"There is no tool {name!r}. Tools: {', '.join(names)}"
            raise _BadRequestError(JsonRpcErrorCode.METHOD_NOT_FOUND, message)
        try:
            result = self.session.call_tool(name, dict(params.get("arguments") or {}))
        except (RequestRejectedError, TypeError, ValueError) as error:  # a ToolArgumentsError is a ValueError
            raise _BadRequestError(JsonRpcErrorCode.INVALID_PARAMS, str(error)) from error
        return {"data": result.data, "done": result.done, "metadata": dict(result.metadata), "error": result.error}
