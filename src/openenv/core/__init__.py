"""Clients and servers of environments. Names are handed out on first use (PEP 562)."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports
from openenv.core import env_server

if TYPE_CHECKING:
    from openenv.core.client_types import StepResult as StepResult
    from openenv.core.env_client import EnvClient as EnvClient
    from openenv.core.env_server import *  # noqa: F403  # its names are listed there
    from openenv.core.generic_client import GenericAction as GenericAction
    from openenv.core.generic_client import GenericEnvClient as GenericEnvClient
    from openenv.core.mcp_client import MCPClientBase as MCPClientBase
    from openenv.core.mcp_client import MCPToolClient as MCPToolClient
    from openenv.core.sync_client import SyncEnvClient as SyncEnvClient
    from openenv.core.typed_client import TypedEnvClient as TypedEnvClient
    from openenv.core.typed_client import client_for as client_for
    from openenv.core.vector_client import SyncVectorEnv as SyncVectorEnv
    from openenv.core.vector_client import VectorEnv as VectorEnv
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "openenv.core.env_client": ("EnvClient",),
            "openenv.core.sync_client": ("SyncEnvClient",),
            "openenv.core.generic_client": ("GenericAction", "GenericEnvClient"),
            "openenv.core.mcp_client": ("MCPClientBase", "MCPToolClient"),
            "openenv.core.typed_client": ("TypedEnvClient", "client_for"),
            "openenv.core.vector_client": ("SyncVectorEnv", "VectorEnv"),
            "openenv.core.client_types": ("StepResult",),
            "openenv.core.env_server": tuple(env_server.__all__),
        },
    )
