"""Runner of an environment in a process of its own, or in one shared with other sessions."""

import asyncio
import logging
from collections.abc import Mapping
from itertools import count
from typing import Any, NoReturn, Self

from pydantic_core import from_json

from openenv.core.env_server.execution.progress import current_progress_listener
from openenv.core.env_server.execution.runner import within
from openenv.core.env_server.execution.snapshots import Snapshot
from openenv.core.env_server.execution.task_questions import TaskQuestion
from openenv.core.env_server.isolation.link import Call
from openenv.core.env_server.isolation.pool import EnvironmentProcess, ProcessPool
from openenv.core.exceptions import (
    EnvironmentFactoryError,
    EnvironmentFailedError,
    EnvironmentProcessEndedError,
    RequestError,
    ResetNeededError,
)
from openenv.core.telemetry import SpanContext
from openenv.core.wire.results import Outcome, WrittenJson

logger = logging.getLogger(__name__)

# Seconds that an environment gets to close, the end of its current call included.
_CLOSE_TIMEOUT_S = 30.0

_NO_PROCESS = "Expected a reset: the environment's process has ended, and the episode with it."

_numbers = count(1)


class ProcessRunner:
    """``Runner`` of an environment in another process; ``reset`` and ``step`` always return coroutines.

    With its process an episode ends. One call fails with that error; then only a reset is accepted, which creates a new
    environment in a new process.

    Args:
        processes: The pool of the environments' processes.
    """

    inline = False

    def __init__(self, processes: ProcessPool) -> None:
        self.environment_name = processes.name
        self.requires_reset = True
        self.can_snapshot = False
        self.has_state = True
        self.offers_tools = False
        self.tool_names: frozenset[str] = frozenset()
        self.reset_names: tuple[str, ...] | None = None
        self.step_names: tuple[str, ...] | None = None
        self.supports_concurrent_sessions = False
        self._processes = processes
        self._process: EnvironmentProcess | None = None
        self._number = next(_numbers)
        self._closed = False

    @classmethod
    async def make(cls, processes: ProcessPool) -> Self:
        """Create an environment in a process.

        Raises:
            EnvironmentFactoryError: The factory raised, returned no environment or ended its process, or no process
                could be started.
        """
        runner = cls(processes)
        await runner._open()
        return runner

    async def reset(self, arguments: Mapping[str, Any], timeout_s: float | None = None) -> Outcome | WrittenJson:
        """Call ``reset`` with the arguments that it accepts; in a new process, where the old one has ended."""
        if self._process is not None and self._process.ended is not None:
            self._release(self._process)
        if self._process is None:
            await self._open()
        return await self._call("reset", arguments, timeout_s=timeout_s)

    async def step(
        self, action: Any, options: Mapping[str, Any], timeout_s: float | None = None
    ) -> Outcome | WrittenJson:
        """Call ``step`` with the action and the options that it accepts."""
        reports = () if current_progress_listener() is None else (True,)
        return await self._call("step", action, options, *reports, timeout_s=timeout_s)

    async def state(self, timeout_s: float | None = None) -> Outcome | WrittenJson:
        """Return the state, which may be a property or a method."""
        return await self._call("state", timeout_s=timeout_s)

    async def render(self, timeout_s: float | None = None) -> WrittenJson:
        """Return a picture of the episode's current state."""
        picture = await self._call("render", timeout_s=timeout_s)
        assert isinstance(picture, WrittenJson)
        return picture

    async def render_web(self, observation: Mapping[str, Any], timeout_s: float | None = None) -> WrittenJson:
        """Return what the environment shows of an observation in a page."""
        view = await self._call("render_web", observation, timeout_s=timeout_s)
        assert isinstance(view, WrittenJson)
        return view

    async def metadata(self, timeout_s: float | None = None) -> Any:
        """Return the environment's description of itself."""
        return _value(await self._call("metadata", timeout_s=timeout_s))

    async def tasks(self, question: TaskQuestion, timeout_s: float | None = None) -> WrittenJson:
        """Answer a question about the environment's tasks."""
        answer = await self._call("tasks", question, timeout_s=timeout_s)
        assert isinstance(answer, WrittenJson)
        return answer

    async def snapshot(self, timeout_s: float | None = None) -> Snapshot:
        """Return a snapshot; only where ``can_snapshot`` holds. A timeout of this call does not kill the process.

        Raises:
            ResetNeededError: The environment's process has ended.
        """
        process = self._process
        if process is None or process.ended is not None:  # the next call raises the error of the process
            raise ResetNeededError(_NO_PROCESS)
        answer = await within("snapshot", timeout_s, process.call(Call(self._number, "snapshot", ())))
        assert isinstance(answer, WrittenJson)
        return Snapshot.from_json(answer.text)

    async def restore(self, snapshot: Snapshot, timeout_s: float | None = None) -> None:
        """Restore a snapshot; only where ``can_snapshot`` holds."""
        await self._call("restore", snapshot, timeout_s=timeout_s)

    async def copy(self, executor: object, session_name: str | None, timeout_s: float | None = None) -> NoReturn:
        """Raise an error: a copy made with ``copy.deepcopy`` would share the process of the original.

        Raises:
            EnvironmentFailedError: Always.
        """
        raise EnvironmentFailedError("a copy would not be in a process of its own")

    async def close(self) -> None:
        """Close the environment and release its slot; a process that hangs without other sessions is killed."""
        self._closed = True
        process = self._process
        if process is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await process.call(Call(self._number, "close", ()))
        except RequestError as error:
            logger.debug("the environment did not close cleanly: %s", error)
        except (TimeoutError, asyncio.CancelledError) as error:
            if process.sessions == 1:
                process.kill("was ended because its environment did not close")
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._release(process)

    async def _open(self) -> None:
        self._process = process = await self._processes.acquire()
        try:
            about = _value(await process.call(Call(self._number, "open", ())))
        except EnvironmentProcessEndedError as error:
            self._release(process)
            name = self._processes.name
            raise EnvironmentFactoryError(
                name, f"Environment factory '{name}' failed to create instance: its process {error.how}."
            ) from error
        except BaseException:
            process.post(Call(self._number, "close", ()))  # if it was created before the call was cancelled
            self._release(process)
            raise
        if self._closed:  # while a reset was creating a new environment
            await self.close()
        self.environment_name = about["name"]
        self.requires_reset = about["requires_reset"]
        self.can_snapshot = about["can_snapshot"]
        self.has_state = about["has_state"]
        self.offers_tools = about["offers_tools"]
        self.tool_names = frozenset(about["tool_names"])
        self.reset_names = _names(about["reset_names"])
        self.step_names = _names(about["step_names"])
        self.supports_concurrent_sessions = about["supports_concurrent_sessions"]

    async def _call(self, operation: str, *arguments: Any, timeout_s: float | None = None) -> Outcome | WrittenJson:
        process = self._process
        if process is None:
            raise ResetNeededError(_NO_PROCESS)
        try:
            return await process.call(Call(self._number, operation, arguments, SpanContext.current()), timeout_s)
        except RequestError:
            if process.ended is not None:
                self._release(process)
            raise

    def _release(self, process: EnvironmentProcess) -> None:
        if self._process is process:
            self._process = None
            self._processes.release(process)


def _names(listed: list[str] | None) -> tuple[str, ...] | None:
    return None if listed is None else tuple(listed)


def _value(answer: Outcome | WrittenJson) -> Any:
    assert isinstance(answer, WrittenJson)
    return from_json(answer.text)
