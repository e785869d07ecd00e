"""Public import path of ``openenv.core.client.mcp``."""

from openenv.core.client.mcp import GenericMCPObservation, MCPClientBase, MCPToolClient

__all__ = ["GenericMCPObservation", "MCPClientBase", "MCPToolClient"]
