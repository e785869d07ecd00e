"""Tools on the wire: the actions that list and call them, their observations, and the JSON-RPC messages of MCP."""

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, model_serializer

from openenv.core.wire.types import Action, BaseMessage, Observation

RESERVED_TOOL_NAMES = frozenset({"reset", "step", "state", "close"})
"""Names that no tool may have: those of a trainer's operations."""

LONGEST_TOOL_NAME = 128
"""Maximum number of characters of a tool's name."""


class Tool(BaseMessage):
    """Description of a tool for agents.

    Attributes:
        name: Name of the tool.
        description: Description of what the tool does.
        input_schema: JSON Schema of its arguments, an object.
    """

    name: str
    description: str
    input_schema: dict[str, Any]


ACTION_KEY = "openenv/action"
"""Key, in the ``meta`` of a listed tool, of the name of the action class that the tool stands for."""


class ListedTool(Tool):
    """Tool as a server lists it.

    Attributes:
        action: Name of the action class that the tool stands for; ``None`` for a tool of the environment's own, and
            from servers that do not say it.
    """

    action: str | None = Field(default=None, exclude=True)

    @property
    def meta(self) -> dict[str, Any] | None:
        """The tool's ``meta`` on the wire; ``None`` if there is nothing to say."""
        return None if self.action is None else {ACTION_KEY: self.action}


class ToolErrorType(StrEnum):
    """Type of the error of a tool call."""

    EXECUTION_ERROR = "execution_error"
    INVALID_ARGS = "invalid_args"
    TRANSPORT_ERROR = "transport_error"
    TOOL_NOT_FOUND = "tool_not_found"
    TIMEOUT = "timeout"


class ToolError(BaseMessage):
    """Error of a tool call; the episode goes on."""

    error_type: ToolErrorType
    message: str


class ListToolsAction(Action):
    """Action that lists the tools. It is no step: it is allowed at any time, and is not counted."""

    type: Literal["list_tools"] = "list_tools"


class CallToolAction(Action):
    """Action that calls a tool.

    Attributes:
        tool_name: Name of the tool.
        arguments: Its arguments, by their names.
    """

    type: Literal["call_tool"] = "call_tool"
    tool_name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class ListToolsObservation(Observation):
    """Observation with the current tools."""

    tools: list[Tool]


class CallToolObservation(Observation):
    """Observation with the result of a tool.

    Attributes:
        tool_name: Name of the tool.
        result: The tool's return value.
        error: The error, if there is no result.
    """

    tool_name: str
    result: Any = None
    error: ToolError | None = None


class GenericMCPObservation(Observation):
    """Observation of an environment with tools after other requests, such as a reset, with any fields."""

    model_config = ConfigDict(extra="allow")


TOOL_KEYS = frozenset({"tool_name", "tools"})
"""Fields by which an observation of an environment with tools is recognized."""


def tool_observation_class(fields: Mapping[str, Any]) -> type[Observation]:
    """Return the class of an observation of an environment with tools, recognized by its fields and their form."""
    if isinstance(fields.get("tool_name"), str) and isinstance(fields.get("error"), Mapping | None):
        return CallToolObservation
    tools = fields.get("tools")
    is_list = isinstance(tools, list) and all(map(_describes_tool, tools))
    return ListToolsObservation if is_list and fields.keys() <= _LIST_FIELDS else GenericMCPObservation


def _describes_tool(value: Any) -> bool:
    """Return whether a value is a tool's description, with MCP's name of the schema or with ours."""
    return isinstance(value, Mapping) and "name" in value and ("input_schema" in value or "inputSchema" in value)


_LIST_FIELDS = ListToolsObservation.model_fields.keys()

TOOL_ACTIONS: dict[str, type[Action]] = {"list_tools": ListToolsAction, "call_tool": CallToolAction}
"""Actions that list and call tools, by their ``type``."""


# --- JSON-RPC --------------------------------------------------------------------------------------------------------


class McpMethod(StrEnum):
    """Methods of MCP that list and call tools."""

    TOOLS_LIST = "tools/list"
    TOOLS_CALL = "tools/call"


class JsonRpcErrorCode(IntEnum):
    """Codes of JSON-RPC errors."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    SERVER_ERROR = -32000


_MESSAGES = {
    JsonRpcErrorCode.PARSE_ERROR: "Parse error",
    JsonRpcErrorCode.INVALID_REQUEST: "Invalid Request",
    JsonRpcErrorCode.METHOD_NOT_FOUND: "Method not found",
    JsonRpcErrorCode.INVALID_PARAMS: "Invalid params",
    JsonRpcErrorCode.INTERNAL_ERROR: "Internal error",
    JsonRpcErrorCode.SERVER_ERROR: "Server error",
}


class JsonRpcError(BaseModel):
    """Error of a JSON-RPC request."""

    model_config = ConfigDict(extra="forbid")

    code: int
    message: str
    data: Any = None

    @classmethod
    def from_code(cls, code: JsonRpcErrorCode, message: str | None = None, data: Any = None) -> Self:
        """Make an error, by default with the code's own message."""
        return cls(code=int(code), message=_MESSAGES[code] if message is None else message, data=data)


class JsonRpcRequest(BaseModel):
    """JSON-RPC request; without an ``id``, it is a notification."""

    model_config = ConfigDict(extra="forbid")

    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, Any] = Field(default_factory=dict)
    id: str | StrictInt | None = None  # strict: True would be answered as 1


class JsonRpcResponse(BaseModel):
    """Response to a JSON-RPC request: a result or an error, never both."""

    model_config = ConfigDict(extra="forbid")

    jsonrpc: Literal["2.0"] = "2.0"
    result: Any = None
    error: JsonRpcError | None = None
    id: str | int | None = None

    @classmethod
    def success(cls, result: Any, request_id: str | int | None = None) -> Self:
        """Make the response to a request that succeeded."""
        return cls(result=result, id=request_id)

    @classmethod
    def error_response(
        cls,
        code: JsonRpcErrorCode,
        message: str | None = None,
        data: Any = None,
        request_id: str | int | None = None,
    ) -> Self:
        """Make the response to a request that failed."""
        return cls(error=JsonRpcError.from_code(code, message, data), id=request_id)

    @model_serializer(mode="plain")
    def _one_of_both(self) -> dict[str, Any]:
        answer = {"result": self.result} if self.error is None else {"error": self.error}
        return {"jsonrpc": self.jsonrpc, "id": self.id, **answer}
