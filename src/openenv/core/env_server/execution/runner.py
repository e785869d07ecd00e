"""Interface of runners: how a session calls its environment, whether in this process or in another."""

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping
from types import CoroutineType
from typing import Any, Protocol, TypeAlias, TypeVar

from openenv.core.env_server.execution.executors import Executor
from openenv.core.env_server.execution.snapshots import Snapshot
from openenv.core.env_server.execution.task_questions import TaskQuestion
from openenv.core.exceptions import EnvironmentTimeoutError
from openenv.core.wire.results import ImageFile, Picture, WebView, WrittenJson

ResultT = TypeVar("ResultT")

Started: TypeAlias = ResultT | Coroutine[Any, Any, ResultT]
"""Result of a call that has ended, or the coroutine that returns the result. Only a coroutine is to be awaited."""


class Runner(Protocol):
    """Runner of one environment: calls it in its executor, and turns its exceptions into ``RequestError``.

    ``reset`` and ``step`` return a result or a coroutine; only the runner decides which.

    Attributes:
        inline: Whether ``reset`` and ``step`` usually return results: the environment never blocks the event loop.
        can_snapshot: Whether the environment has ``snapshot`` and ``restore``.
        has_state: Whether the environment has a state of its own.
        offers_tools: Whether ``step`` accepts the actions that list and call tools.
        tool_names: Names of the tools of the environment's class.
        reset_names: Names of the parameters of ``reset``; ``None`` where it accepts any.
        step_names: Names of the options of ``step``, beside the action; ``None`` where it accepts any.
    """

    inline: bool
    can_snapshot: bool
    has_state: bool
    offers_tools: bool
    tool_names: frozenset[str]
    reset_names: tuple[str, ...] | None
    step_names: tuple[str, ...] | None

    @property
    def environment_name(self) -> str:
        """Name of the environment's class."""
        ...

    @property
    def requires_reset(self) -> bool:
        """Whether a step before the first reset, or after the end of an episode, is an error."""
        ...

    @property
    def supports_concurrent_sessions(self) -> bool:
        """Whether the environment shares no state with other instances of its class."""
        ...

    def reset(self, arguments: Mapping[str, Any], timeout_s: float | None = None) -> Started[Any]:
        """Call ``reset`` with the arguments that it accepts.

        Raises:
            InvalidRequestError: An argument does not match its annotation.
            RequestError: The environment raised or took too long.
        """
        ...

    def step(self, action: Any, options: Mapping[str, Any], timeout_s: float | None = None) -> Started[Any]:
        """Call ``step`` with the action and the options that it accepts.

        Raises:
            RequestError: The environment raised or took too long.
        """
        ...

    async def state(self, timeout_s: float | None = None) -> Any:
        """Return the state."""
        ...

    async def render(self, timeout_s: float | None = None) -> Picture | ImageFile | WrittenJson | None:
        """Return a picture of the episode's current state; ``None`` where the environment has none."""
        ...

    async def render_web(self, observation: Mapping[str, Any], timeout_s: float | None = None) -> WebView | WrittenJson:
        """Return what the environment shows of an observation in a page."""
        ...

    async def metadata(self, timeout_s: float | None = None) -> Any:
        """Return the environment's description of itself."""
        ...

    async def tasks(self, question: TaskQuestion, timeout_s: float | None = None) -> WrittenJson:
        """Answer a question about the environment's tasks."""
        ...

    async def snapshot(self, timeout_s: float | None = None) -> Snapshot:
        """Return a snapshot; only where ``can_snapshot`` holds."""
        ...

    async def restore(self, snapshot: Snapshot, timeout_s: float | None = None) -> None:
        """Restore a snapshot; only where ``can_snapshot`` holds."""
        ...

    async def copy(self, executor: Executor, session_name: str | None, timeout_s: float | None = None) -> "Runner":
        """Copy the environment into another executor, for another session."""
        ...

    async def close(self) -> None:
        """Close the environment."""
        ...


async def finished(started: Started[ResultT]) -> ResultT:
    """Return the result of a call; await it unless the call has ended already.

    Args:
        started: Return value of ``Runner.reset`` or ``Runner.step``.
    """
    return await started if isinstance(started, CoroutineType) else started  # type: ignore[return-value]


async def within(operation: str, timeout_s: float | None, call: Awaitable[Any]) -> Any:
    """Await a call for at most ``timeout_s`` seconds.

    Raises:
        EnvironmentTimeoutError: The call took longer.
    """
    timer = asyncio.timeout(timeout_s)
    try:
        async with timer:
            return await call
    except TimeoutError:
        if timeout_s is not None and timer.expired():
            raise EnvironmentTimeoutError(operation, timeout_s) from None
        raise
