"""Public import path of the names that build a server, and of those that programs import beside them from there."""

from openenv.core.env_server import types as _types
from openenv.core.env_server.app import HTTPEnvServer, create_app, create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    JsonRpcErrorCode,
    JsonRpcRequest,
    JsonRpcResponse,
    ListToolsAction,
    ListToolsObservation,
    McpMethod,
)
from openenv.core.env_server.serialization import deserialize_action, serialize_observation
from openenv.core.env_server.types import *  # noqa: F403

__all__ = [
    "CallToolAction",
    "CallToolObservation",
    "Environment",
    "HTTPEnvServer",
    "JsonRpcErrorCode",
    "JsonRpcRequest",
    "JsonRpcResponse",
    "ListToolsAction",
    "ListToolsObservation",
    "McpMethod",
    "create_app",
    "create_fastapi_app",
    "deserialize_action",
    "serialize_observation",
]
__all__ += _types.__all__
