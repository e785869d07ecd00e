"""Reward of an episode, computed from its calls by a function in a file."""

import importlib
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from inspect import isawaitable
from pathlib import Path
from types import ModuleType
from typing import Any

from openenv.auto.importing import load_file
from openenv.core.env_server.execution.executors import Raised, ThreadExecutor
from openenv.core.exceptions import ConfigurationError, EnvironmentFailedError


@dataclass(frozen=True)
class ToolCall:
    """A tool call of the episode.

    Attributes:
        name: The tool.
        arguments: Its arguments.
        result: Result: a JSON value where the server has one, else the text; ``None`` where it failed.
        error: Reason of a failure; ``None`` without one.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None
    error: str | None = None


RewardFunction = Callable[[Mapping[str, Any] | None, Sequence[ToolCall], str], float | Awaitable[float]]
"""``(task, calls, final)`` to a reward: the task, as the file lists it, or ``None`` where there are no tasks; the tool
calls of the episode, in order; and the answer that the agent gave at the end. It may be ``async``; a plain one runs in
a thread."""


@cache
def load_reward(named: str) -> RewardFunction:
    """Import a reward function; it is imported once.

    Args:
        named: ``module.py:function``, with a path, or ``package.module:function``.

    Raises:
        ConfigurationError: There is no such function.
    """
    module, separator, name = named.rpartition(":")
    if not separator or not module or not name:
        raise ConfigurationError(f"Expected a reward function as in score.py:reward, got {named!r}.")
    found = getattr(_module(module, named), name, None)
    if not callable(found):
        raise ConfigurationError(f"Expected {module} to have a function {name}, for the reward.")
    function: RewardFunction = found
    return function


def absolute(named: str) -> str:
    """Name a function of a file so that it is found from any working directory; others stay as they are."""
    module, separator, name = named.rpartition(":")
    return f"{Path(module).absolute()}{separator}{name}" if module.endswith(".py") else named


async def reward_of(
    function: RewardFunction, task: Mapping[str, Any] | None, calls: Sequence[ToolCall], final: str
) -> float:
    """Compute the reward of an episode.

    Raises:
        EnvironmentFailedError: It did not return a finite number.
    """
    computed = await _in_a_thread(function, task, calls, final)
    if isawaitable(computed):
        computed = await computed
    try:
        reward = float(computed)
    except (TypeError, ValueError):
        reward = math.nan
    if not math.isfinite(reward):
        raise EnvironmentFailedError(f"The reward function returned {computed!r:.100}; expected a finite number.")
    return reward


async def _in_a_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a separate thread: those of ``asyncio.to_thread`` are few, and all sessions share them."""
    executor = ThreadExecutor("reward")
    try:
        return await executor.run(function, *arguments)
    except Raised as raised:
        raise raised.error from None
    finally:
        executor.close()


def _module(name: str, named: str) -> ModuleType:
    try:
        return _from_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except (ImportError, OSError, SyntaxError) as error:
        raise ConfigurationError(f"The reward function {named} can't be imported: {error}") from error


def _from_file(path: Path) -> ModuleType:
    # Under a distinct name: a score.py must not stand for another module of that name.
    name = f"openenv_reward_{path.stem}"
    return load_file(name, path)
