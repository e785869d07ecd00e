"""Public import path of the types of tools and of MCP's messages; they live in ``openenv.core.wire.mcp_types``."""

from openenv.core.wire.actions import names_tool_action, takes_tool_actions, takes_tool_actions_only
from openenv.core.wire.mcp_types import (
    LONGEST_TOOL_NAME,
    RESERVED_TOOL_NAMES,
    TOOL_ACTIONS,
    CallToolAction,
    CallToolObservation,
    GenericMCPObservation,
    JsonRpcError,
    JsonRpcErrorCode,
    JsonRpcRequest,
    JsonRpcResponse,
    ListToolsAction,
    ListToolsObservation,
    McpMethod,
    Tool,
    ToolError,
    ToolErrorType,
    tool_observation_class,
)
from openenv.core.wire.messages import WSMCPMessage, WSMCPResponse
from openenv.core.wire.types import Action, BaseMessage, Observation

__all__ = [
    "LONGEST_TOOL_NAME",
    "RESERVED_TOOL_NAMES",
    "TOOL_ACTIONS",
    "Action",
    "BaseMessage",
    "CallToolAction",
    "CallToolObservation",
    "GenericMCPObservation",
    "JsonRpcError",
    "JsonRpcErrorCode",
    "JsonRpcRequest",
    "JsonRpcResponse",
    "ListToolsAction",
    "ListToolsObservation",
    "McpMethod",
    "Observation",
    "Tool",
    "ToolError",
    "ToolErrorType",
    "WSMCPMessage",
    "WSMCPResponse",
    "names_tool_action",
    "takes_tool_actions",
    "takes_tool_actions_only",
    "tool_observation_class",
]
