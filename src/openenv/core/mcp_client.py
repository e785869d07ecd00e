"""Public import path of ``openenv.core.client.mcp``, and of what programs import beside it from there."""

from openenv.core.client.client import EnvClient
from openenv.core.client.mcp import GenericMCPObservation, MCPClientBase, MCPToolClient
from openenv.core.client.results import StepResult
from openenv.core.wire.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
)
from openenv.core.wire.types import Observation, State

__all__ = [
    "CallToolAction",
    "CallToolObservation",
    "EnvClient",
    "GenericMCPObservation",
    "ListToolsAction",
    "ListToolsObservation",
    "MCPClientBase",
    "MCPToolClient",
    "Observation",
    "State",
    "StepResult",
    "Tool",
    "ToolError",
]
