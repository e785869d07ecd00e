"""Environments of MCP servers for the command line."""

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from openenv.adapters.mcp_server.environment import McpServerEnvironment, check_task, split_command
from openenv.adapters.mcp_server.rewards import absolute, load_reward
from openenv.core.exceptions import ConfigurationError
from openenv.core.tasks import read_tasks


def environment_for(
    command: str,
    tasks: Path | None = None,
    reward: str | None = None,
    variables: Sequence[str] = (),
) -> partial[McpServerEnvironment]:
    """Return a maker of the environments of an MCP server, here and in other processes; it is checked first.

    Args:
        command: The command that starts it.
        tasks: The file that lists its tasks.
        reward: ``module.py:function``, the reward function.
        variables: Names of environment variables that the server gets.

    Raises:
        ConfigurationError: There is no such command, or the tasks or the function can't be read.
    """
    parts = split_command(command)
    if shutil.which(parts[0]) is None:
        raise ConfigurationError(f"Expected an MCP server's command, but there is no program {parts[0]!r}.")
    if tasks is not None:
        tasks = tasks.absolute()
        read_tasks(tasks, check_task)
    if reward is not None:
        reward = absolute(reward)
        load_reward(reward)
    return partial(McpServerEnvironment, parts, tasks=tasks, reward=reward, variables=tuple(variables))
