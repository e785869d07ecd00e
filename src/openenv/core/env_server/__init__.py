"""Server of an environment. Names are imported on first use, so that a client never loads the server's libraries."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.core.env_server.app import HTTPEnvServer as HTTPEnvServer
    from openenv.core.env_server.app import create_app as create_app
    from openenv.core.env_server.app import create_fastapi_app as create_fastapi_app
    from openenv.core.env_server.app import create_web_interface_app as create_web_interface_app
    from openenv.core.env_server.app import serve as serve
    from openenv.core.env_server.app import server_main as server_main
    from openenv.core.env_server.base_transforms import CompositeTransform as CompositeTransform
    from openenv.core.env_server.base_transforms import NullTransform as NullTransform
    from openenv.core.env_server.interfaces import Environment as Environment
    from openenv.core.env_server.interfaces import Message as Message
    from openenv.core.env_server.interfaces import ModelTokenizer as ModelTokenizer
    from openenv.core.env_server.interfaces import TaskProvider as TaskProvider
    from openenv.core.env_server.interfaces import Transform as Transform
    from openenv.core.env_server.mcp_environment import MCPEnvironment as MCPEnvironment
    from openenv.core.env_server.route_config import GetEndpointConfig as GetEndpointConfig
    from openenv.core.env_server.serialization import deserialize_action as deserialize_action
    from openenv.core.env_server.serialization import (
        deserialize_action_with_preprocessing as deserialize_action_with_preprocessing,
    )
    from openenv.core.env_server.serialization import serialize_observation as serialize_observation
    from openenv.core.env_server.tools import ToolResult as ToolResult
    from openenv.core.env_server.tools import tool as tool
    from openenv.core.env_server.web_interface import WebInterfaceManager as WebInterfaceManager
    from openenv.core.exceptions import ConcurrencyConfigurationError as ConcurrencyConfigurationError
    from openenv.core.exceptions import EnvironmentFactoryError as EnvironmentFactoryError
    from openenv.core.exceptions import IllegalActionError as IllegalActionError
    from openenv.core.exceptions import OpenEnvError as OpenEnvError
    from openenv.core.exceptions import SessionCapacityError as SessionCapacityError
    from openenv.core.exceptions import SessionCreationError as SessionCreationError
    from openenv.core.exceptions import SessionNotFoundError as SessionNotFoundError
    from openenv.core.wire.mcp_types import RESERVED_TOOL_NAMES as RESERVED_TOOL_NAMES
    from openenv.core.wire.mcp_types import CallToolAction as CallToolAction
    from openenv.core.wire.mcp_types import CallToolObservation as CallToolObservation
    from openenv.core.wire.mcp_types import JsonRpcError as JsonRpcError
    from openenv.core.wire.mcp_types import JsonRpcErrorCode as JsonRpcErrorCode
    from openenv.core.wire.mcp_types import JsonRpcRequest as JsonRpcRequest
    from openenv.core.wire.mcp_types import JsonRpcResponse as JsonRpcResponse
    from openenv.core.wire.mcp_types import ListToolsAction as ListToolsAction
    from openenv.core.wire.mcp_types import ListToolsObservation as ListToolsObservation
    from openenv.core.wire.mcp_types import McpMethod as McpMethod
    from openenv.core.wire.mcp_types import Tool as Tool
    from openenv.core.wire.mcp_types import ToolError as ToolError
    from openenv.core.wire.mcp_types import ToolErrorType as ToolErrorType
    from openenv.core.wire.messages import WSCloseMessage as WSCloseMessage
    from openenv.core.wire.messages import WSErrorCode as WSErrorCode
    from openenv.core.wire.messages import WSErrorResponse as WSErrorResponse
    from openenv.core.wire.messages import WSIncomingMessage as WSIncomingMessage
    from openenv.core.wire.messages import WSMCPMessage as WSMCPMessage
    from openenv.core.wire.messages import WSMCPResponse as WSMCPResponse
    from openenv.core.wire.messages import WSObservationResponse as WSObservationResponse
    from openenv.core.wire.messages import WSResetMessage as WSResetMessage
    from openenv.core.wire.messages import WSStateMessage as WSStateMessage
    from openenv.core.wire.messages import WSStateResponse as WSStateResponse
    from openenv.core.wire.messages import WSStepMessage as WSStepMessage
    from openenv.core.wire.types import Action as Action
    from openenv.core.wire.types import BaseMessage as BaseMessage
    from openenv.core.wire.types import CodeExecResult as CodeExecResult
    from openenv.core.wire.types import ConcurrencyConfig as ConcurrencyConfig
    from openenv.core.wire.types import EnvironmentMetadata as EnvironmentMetadata
    from openenv.core.wire.types import GetTaskRangeRequest as GetTaskRangeRequest
    from openenv.core.wire.types import GetTaskRequest as GetTaskRequest
    from openenv.core.wire.types import HealthResponse as HealthResponse
    from openenv.core.wire.types import HealthStatus as HealthStatus
    from openenv.core.wire.types import ListTasksRequest as ListTasksRequest
    from openenv.core.wire.types import NumTasksRequest as NumTasksRequest
    from openenv.core.wire.types import Observation as Observation
    from openenv.core.wire.types import ResetRequest as ResetRequest
    from openenv.core.wire.types import ResetResponse as ResetResponse
    from openenv.core.wire.types import SchemaResponse as SchemaResponse
    from openenv.core.wire.types import ServerCapacityStatus as ServerCapacityStatus
    from openenv.core.wire.types import ServerMode as ServerMode
    from openenv.core.wire.types import SessionInfo as SessionInfo
    from openenv.core.wire.types import State as State
    from openenv.core.wire.types import StepRequest as StepRequest
    from openenv.core.wire.types import StepResponse as StepResponse
else:
    _PACKAGE = "openenv.core.env_server"

    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            f"{_PACKAGE}.app": (
                "HTTPEnvServer",
                "create_app",
                "create_fastapi_app",
                "create_web_interface_app",
                "serve",
                "server_main",
            ),
            f"{_PACKAGE}.interfaces": ("Environment", "Message", "ModelTokenizer", "TaskProvider", "Transform"),
            f"{_PACKAGE}.base_transforms": ("CompositeTransform", "NullTransform"),
            f"{_PACKAGE}.route_config": ("GetEndpointConfig",),
            f"{_PACKAGE}.serialization": (
                "deserialize_action",
                "deserialize_action_with_preprocessing",
                "serialize_observation",
            ),
            f"{_PACKAGE}.mcp_environment": ("MCPEnvironment",),
            f"{_PACKAGE}.mcp_types": (
                "CallToolAction",
                "CallToolObservation",
                "JsonRpcError",
                "JsonRpcErrorCode",
                "JsonRpcRequest",
                "JsonRpcResponse",
                "ListToolsAction",
                "ListToolsObservation",
                "McpMethod",
                "RESERVED_TOOL_NAMES",
                "Tool",
                "ToolError",
                "ToolErrorType",
            ),
            f"{_PACKAGE}.tools": ("ToolResult", "tool"),
            f"{_PACKAGE}.web_interface": ("WebInterfaceManager",),
            f"{_PACKAGE}.types": (
                "Action",
                "BaseMessage",
                "CodeExecResult",
                "ConcurrencyConfig",
                "EnvironmentMetadata",
                "GetTaskRangeRequest",
                "GetTaskRequest",
                "HealthResponse",
                "HealthStatus",
                "ListTasksRequest",
                "NumTasksRequest",
                "Observation",
                "ResetRequest",
                "ResetResponse",
                "SchemaResponse",
                "ServerCapacityStatus",
                "ServerMode",
                "SessionInfo",
                "State",
                "StepRequest",
                "StepResponse",
                "WSCloseMessage",
                "WSErrorCode",
                "WSErrorResponse",
                "WSIncomingMessage",
                "WSMCPMessage",
                "WSMCPResponse",
                "WSObservationResponse",
                "WSResetMessage",
                "WSStateMessage",
                "WSStateResponse",
                "WSStepMessage",
            ),
            "openenv.core.exceptions": (
                "ConcurrencyConfigurationError",
                "EnvironmentFactoryError",
                "IllegalActionError",
                "OpenEnvError",
                "SessionCapacityError",
                "SessionCreationError",
                "SessionNotFoundError",
            ),
        },
        optional={"MCPEnvironment": "fastmcp"},
    )
