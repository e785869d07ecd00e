"""Runner that measures the CPU time of an environment's plain methods, and sends it in the metadata of each outcome."""

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from inspect import isawaitable
from types import CoroutineType
from typing import Any

from openenv.core.env_server.execution.executors import Executor, InlineExecutor
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.execution.local_runner import LocalRunner
from openenv.core.env_server.execution.rewards import with_metadata
from openenv.core.env_server.execution.runner import Started
from openenv.core.env_server.execution.snapshots import Snapshot
from openenv.core.exceptions import RequestError
from openenv.core.wire.results import CPU_SECONDS, outcome_of

__all__ = ["MeasuredRunner", "make_runner"]


async def make_runner(factory: EnvironmentFactory, executor: Executor, session_name: str | None = None) -> LocalRunner:
    """Create an environment in its executor, with a runner that measures its CPU time where the factory says so.

    Args:
        factory: Creates the environment.
        executor: Where the environment's plain methods run.
        session_name: Public name of the session, for the log.

    Raises:
        EnvironmentFactoryError: The factory raised, or returned no environment.
    """
    runner = MeasuredRunner if factory.measures_cpu else LocalRunner
    return await runner.make(factory, executor, session_name)


class MeasuredRunner(LocalRunner):
    """``LocalRunner`` that adds the CPU seconds of the episode so far to the metadata of each outcome.

    They are those of the thread that runs the plain methods, from the reset on. Those of an ``async`` method are not
    known, since other sessions run between its parts; nor are those of an episode that was restored.
    """

    def __init__(
        self, environment: Any, executor: Executor, session_name: str | None = None, *, keep: bool = False
    ) -> None:
        super().__init__(environment, executor, session_name, keep=keep)
        self._cpu_s = 0.0
        # Until an awaitable is returned, for good; and from a restore to the next reset.
        self._is_plain = not (self._reset.awaited or self._step.awaited)
        self._is_whole = True
        if self.inline:  # which calls these at once, and everything else in its executor
            self._plain_reset = partial(self._measured, self._plain_reset)
            self._plain_step = partial(self._measured, self._plain_step)
        is_inline = isinstance(executor, InlineExecutor)
        self._executor = _InlineExecutor(self._measured) if is_inline else _ThreadExecutor(executor, self._measured)

    def reset(self, arguments: Mapping[str, Any], timeout_s: float | None = None) -> Started[Any]:
        """See ``Runner``."""
        self._cpu_s, self._is_whole = 0.0, True
        return self._with_cpu(super().reset(arguments, timeout_s))

    def step(self, action: Any, options: Mapping[str, Any], timeout_s: float | None = None) -> Started[Any]:
        """See ``Runner``."""
        return self._with_cpu(super().step(action, options, timeout_s))

    async def restore(self, snapshot: Snapshot, timeout_s: float | None = None) -> None:
        """Restore a snapshot; only where ``can_snapshot`` holds."""
        self._is_whole = False
        await super().restore(snapshot, timeout_s)

    async def copy(self, executor: Executor, session_name: str | None, timeout_s: float | None = None) -> LocalRunner:
        """Copy the environment with ``copy.deepcopy``, and what it has used; see ``LocalRunner``."""
        copied = await super().copy(executor, session_name, timeout_s)
        assert isinstance(copied, MeasuredRunner)
        copied._cpu_s, copied._is_whole = self._cpu_s, self._is_whole
        return copied

    def _measured(self, function: Callable[..., Any], *args: Any, **values: Any) -> Any:
        began = time.thread_time()
        try:
            result = function(*args, **values)
        finally:
            self._cpu_s += time.thread_time() - began
        if isawaitable(result):
            self._is_plain = False
        return result

    def _with_cpu(self, started: Started[Any]) -> Started[Any]:
        return self._awaited(started) if isinstance(started, CoroutineType) else self._outcome(started)

    async def _awaited(self, started: Awaitable[Any]) -> Any:
        return self._outcome(await started)

    def _outcome(self, returned: Any) -> Any:
        if not (self._is_plain and self._is_whole):
            return returned
        try:
            return with_metadata(outcome_of(returned), {CPU_SECONDS: round(self._cpu_s, 6)}, is_plain=True)
        except RequestError:
            return returned  # the session reports the wrong value


class _ThreadExecutor(Executor):
    """Executor whose calls are measured in its thread."""

    def __init__(self, executor: Executor, measured: Callable[..., Any]) -> None:
        self._executor = executor
        self._measured = measured

    def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        return self._executor.run(self._measured, function, *args, **kwargs)

    def close(self) -> None:
        self._executor.close()


class _InlineExecutor(InlineExecutor):
    """Executor on the event loop whose calls are measured."""

    def __init__(self, measured: Callable[..., Any]) -> None:
        self._measured = measured

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return await super().run(self._measured, function, *args, **kwargs)
