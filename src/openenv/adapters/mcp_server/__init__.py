"""Existing MCP servers as environments: their tools, with tasks and a reward function beside."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.adapters.mcp_server.environment import McpServerEnvironment as McpServerEnvironment
    from openenv.adapters.mcp_server.environment import McpServerObservation as McpServerObservation
    from openenv.adapters.mcp_server.factory import environment_for as environment_for
    from openenv.adapters.mcp_server.rewards import RewardFunction as RewardFunction
    from openenv.adapters.mcp_server.rewards import ToolCall as ToolCall

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "openenv.adapters.mcp_server.environment": ("McpServerEnvironment", "McpServerObservation"),
        "openenv.adapters.mcp_server.factory": ("environment_for",),
        "openenv.adapters.mcp_server.rewards": ("RewardFunction", "ToolCall"),
    },
)
