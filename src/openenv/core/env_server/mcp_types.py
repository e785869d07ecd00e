"""Tools on the wire: the actions that list and call them, what comes back, and the JSON-RPC envelopes of MCP."""

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_serializer

from openenv.core.env_server.action_unions import action_members
from openenv.core.env_server.types import Action, BaseMessage, Observation

RESERVED_TOOL_NAMES = frozenset({"reset", "step", "state", "close"})
"""Names that no tool may have: they would look like what only a trainer may do."""

LONGEST_TOOL_NAME = 128
"""Characters that a tool's name may have."""


class Tool(BaseMessage):
    """What an agent is told of a tool.

    Attributes:
        name: The name to call it by.
        description: What it does.
        input_schema: JSON Schema of its arguments, an object.
    """

    name: str
    description: str
    input_schema: dict[str, Any]


class ToolErrorType(StrEnum):
    """Why a tool call gave no result."""

    EXECUTION_ERROR = "execution_error"
    INVALID_ARGS = "invalid_args"
    TRANSPORT_ERROR = "transport_error"
    TOOL_NOT_FOUND = "tool_not_found"
    TIMEOUT = "timeout"


class ToolError(BaseMessage):
    """A tool call that gave no result; the episode goes on."""

    error_type: ToolErrorType
    message: str


class ListToolsAction(Action):
    """Ask which tools there are. It is no step: it is allowed at any time, and nothing counts it."""

    type: Literal["list_tools"] = "list_tools"


class CallToolAction(Action):
    """Call a tool.

    Attributes:
        tool_name: Its name.
        arguments: Its arguments, by their names.
    """

    type: Literal["call_tool"] = "call_tool"
    tool_name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class ListToolsObservation(Observation):
    """The tools that there are now."""

    tools: list[Tool]


class CallToolObservation(Observation):
    """What a tool gave.

    Attributes:
        tool_name: Name of the tool.
        result: What it returned.
        error: Why there is no result.
    """

    tool_name: str
    result: Any = None
    error: ToolError | None = None


class GenericMCPObservation(Observation):
    """What an environment with tools answers to anything else, such as a reset: whatever fields it has."""

    model_config = ConfigDict(extra="allow")


def tool_observation_class(fields: Mapping[str, Any]) -> type[Observation]:
    """Tell from an observation's fields which one it is, of an environment with tools."""
    if "tool_name" in fields:
        return CallToolObservation
    return ListToolsObservation if "tools" in fields else GenericMCPObservation


TOOL_ACTIONS: dict[str, type[Action]] = {"list_tools": ListToolsAction, "call_tool": CallToolAction}
"""The two actions that concern tools, by their ``type``."""


def takes_tool_actions(action_class: type[BaseModel]) -> bool:
    """Whether an environment that is served with this class of actions takes the two that concern tools."""
    tool_actions = tuple(TOOL_ACTIONS.values())
    return action_class is Action or all(issubclass(member, tool_actions) for member in action_members(action_class))


def names_tool_action(fields: Mapping[str, Any]) -> bool:
    """Whether an action's fields say that it is one of the two."""
    kind = fields.get("type")
    return isinstance(kind, str) and kind in TOOL_ACTIONS


# --- JSON-RPC --------------------------------------------------------------------------------------------------------


class McpMethod(StrEnum):
    """The methods of MCP that concern tools."""

    TOOLS_LIST = "tools/list"
    TOOLS_CALL = "tools/call"


class JsonRpcErrorCode(IntEnum):
    """The codes of JSON-RPC errors."""

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
    """Why a JSON-RPC request failed."""

    model_config = ConfigDict(extra="forbid")

    code: int
    message: str
    data: Any = None

    @classmethod
    def from_code(cls, code: JsonRpcErrorCode, message: str | None = None, data: Any = None) -> Self:
        """Make an error, with the code's own message where none is given."""
        return cls(code=int(code), message=_MESSAGES[code] if message is None else message, data=data)


class JsonRpcRequest(BaseModel):
    """A JSON-RPC request; one without an ``id`` is a notification."""

    model_config = ConfigDict(extra="forbid")

    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, Any] = Field(default_factory=dict)
    id: str | int | None = None


class JsonRpcResponse(BaseModel):
    """The answer to a JSON-RPC request: a result or an error, never both."""

    model_config = ConfigDict(extra="forbid")

    jsonrpc: Literal["2.0"] = "2.0"
    result: Any = None
    error: JsonRpcError | None = None
    id: str | int | None = None

    @classmethod
    def success(cls, result: Any, request_id: str | int | None = None) -> Self:
        """Answer a request that succeeded."""
        return cls(result=result, id=request_id)

    @classmethod
    def error_response(
        cls,
        code: JsonRpcErrorCode,
        message: str | None = None,
        data: Any = None,
        request_id: str | int | None = None,
    ) -> Self:
        """Answer a request that failed."""
        return cls(error=JsonRpcError.from_code(code, message, data), id=request_id)

    @model_serializer(mode="plain")
    def _one_of_both(self) -> dict[str, Any]:
        answer = {"result": self.result} if self.error is None else {"error": self.error}
        return {"jsonrpc": self.jsonrpc, "id": self.id, **answer}
