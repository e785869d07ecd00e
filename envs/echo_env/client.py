"""The client of the echo environment."""

from typing import Any

from openenv.core.env_server.types import Observation
from openenv.core.mcp_client import MCPToolClient

from .models import EchoObservation


class EchoEnv(MCPToolClient):
    """Talk to an echo server, by messages or by its tools.

    ``step`` takes an ``EchoAction``, a ``CallToolAction`` or a ``ListToolsAction``.

    Example::

        async with EchoEnv(base_url="http://localhost:8000") as env:
            await env.reset()
            result = await env.step(EchoAction(message="Hello, World!"))
            print(result.observation.echoed_message, result.reward)  # Hello, World! 1.3
            print(await env.call_tool("echo_message", message="Hello again!"))  # Hello again!
    """

    def _parse_observation(self, fields: dict[str, Any]) -> Observation:
        if "echoed_message" in fields:
            return EchoObservation.model_validate(fields)
        return super()._parse_observation(fields)
