"""Clients and servers of environments. Names are handed out on first use (PEP 562)."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports
from openenv.core import env_server

if TYPE_CHECKING:
    from openenv.core.client.client import EnvClient as EnvClient
    from openenv.core.client.generic import GenericAction as GenericAction
    from openenv.core.client.generic import GenericEnvClient as GenericEnvClient
    from openenv.core.client.mcp import MCPClientBase as MCPClientBase
    from openenv.core.client.mcp import MCPToolClient as MCPToolClient
    from openenv.core.client.results import StepResult as StepResult
    from openenv.core.client.sync import SyncEnvClient as SyncEnvClient
    from openenv.core.client.typed import TypedEnvClient as TypedEnvClient
    from openenv.core.client.typed import client_for as client_for
    from openenv.core.client.vector import SyncVectorEnv as SyncVectorEnv
    from openenv.core.client.vector import VectorEnv as VectorEnv
    from openenv.core.env_server import *  # noqa: F403  # its names are listed there
    from openenv.core.llm_client import AnthropicClient as AnthropicClient
    from openenv.core.llm_client import LLMClient as LLMClient
    from openenv.core.llm_client import LLMResponse as LLMResponse
    from openenv.core.llm_client import OpenAIClient as OpenAIClient
    from openenv.core.llm_client import ToolCall as ToolCall
    from openenv.core.llm_client import create_llm_client as create_llm_client
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "openenv.core.client.client": ("EnvClient",),
            "openenv.core.client.sync": ("SyncEnvClient",),
            "openenv.core.client.generic": ("GenericAction", "GenericEnvClient"),
            "openenv.core.client.mcp": ("MCPClientBase", "MCPToolClient"),
            "openenv.core.client.typed": ("TypedEnvClient", "client_for"),
            "openenv.core.client.vector": ("SyncVectorEnv", "VectorEnv"),
            "openenv.core.client.results": ("StepResult",),
            "openenv.core.llm_client": (
                "AnthropicClient",
                "LLMClient",
                "LLMResponse",
                "OpenAIClient",
                "ToolCall",
                "create_llm_client",
            ),
            "openenv.core.env_server": tuple(env_server.__all__),
        },
    )
