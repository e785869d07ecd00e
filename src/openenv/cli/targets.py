"""What a command is to serve, by the name that it is given."""

from collections.abc import Sequence
from pathlib import Path

from openenv.adapters.targets import AdaptedEnvironment
from openenv.adapters.targets import find_target as find_target


def find_mcp_server(
    command: str, tasks: Path | None, reward: str | None, variables: Sequence[str]
) -> AdaptedEnvironment:
    """Make an environment of the MCP server that a command starts; see ``adapters.mcp_server.environment_for``.

    Raises:
        ConfigurationError: There is no such command, or its tasks or reward function can't be read.
    """
    from openenv.adapters.mcp_server.factory import environment_for  # the SDK takes long, and few need it here

    return AdaptedEnvironment("mcp-server", environment_for(command, tasks, reward, variables))
