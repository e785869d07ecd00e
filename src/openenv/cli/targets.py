"""What a command is to serve, by the name that it is given."""

from collections.abc import Sequence
from pathlib import Path

from openenv.adapters.targets import AdaptedEnvironment, find_adapted
from openenv.auto.discovery import find_environment
from openenv.auto.making import is_adapted
from openenv.auto.package import EnvironmentPackage


def find_target(target: str) -> EnvironmentPackage | AdaptedEnvironment:
    """Find an environment by its name or folder, or another world's as ``PREFIX:ID``.

    Raises:
        EnvironmentNotFoundError: There is none of that name.
        ConfigurationError: It is not as it must be, or what it needs is not installed.
    """
    return find_adapted(target) if is_adapted(target) else find_environment(target)


def find_mcp_server(
    command: str, tasks: Path | None, reward: str | None, variables: Sequence[str]
) -> AdaptedEnvironment:
    """Make an environment of the MCP server that a command starts; see ``adapters.mcp_server.environment_for``.

    Raises:
        ConfigurationError: There is no such command, or its tasks or reward function can't be read.
    """
    from openenv.adapters.mcp_server.made import environment_for  # the SDK takes long, and few need it here

    return AdaptedEnvironment("mcp-server", environment_for(command, tasks, reward, variables))
