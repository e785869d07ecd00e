"""An environment that returns each message."""

from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction

from .client import EchoEnv
from .models import EchoAction, EchoObservation

__all__ = ["CallToolAction", "EchoAction", "EchoEnv", "EchoObservation", "ListToolsAction"]
