"""Public import path of ``openenv.core.client.tools``."""

from openenv.core.client.tools import ToolClient

__all__ = ["ToolClient"]
