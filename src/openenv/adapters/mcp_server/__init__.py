"""Existing MCP servers as environments: their tools, with tasks and a reward function beside."""

from openenv.adapters.mcp_server.environment import McpServerEnvironment, McpServerObservation
from openenv.adapters.mcp_server.made import environment_for
from openenv.adapters.mcp_server.rewards import RewardFunction, ToolCall

__all__ = ["McpServerEnvironment", "McpServerObservation", "RewardFunction", "ToolCall", "environment_for"]
