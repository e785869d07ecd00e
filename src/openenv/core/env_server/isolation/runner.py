"""A session's environment in a process of its own, or shared with other sessions."""

import asyncio
import logging
from collections.abc import Mapping
from itertools import count
from typing import Any, NoReturn, Self

from pydantic_core import from_json

from openenv.core.env_server.execution import ProgressListener, within
from openenv.core.env_server.isolation.link import Call
from openenv.core.env_server.isolation.processes import EnvironmentProcess, Processes
from openenv.core.env_server.outcomes import Outcome, WrittenJson
from openenv.core.env_server.snapshots import Snapshot
from openenv.core.env_server.tasks import TaskQuestion
from openenv.core.exceptions import (
    EnvironmentFactoryError,
    EnvironmentFailedError,
    EnvironmentProcessEndedError,
    RequestError,
    ResetNeededError,
)

logger = logging.getLogger(__name__)

# Seconds that an environment gets to close, after what it may still be doing. Then it is given up.
_CLOSE_TIMEOUT_S = 30.0

_NO_PROCESS = "Expected a reset: the environment's process has ended, and the episode with it."

_numbers = count(1)


class ProcessRunner:
    """What ``Runner`` is to an environment in the server, for one in another process.

    A process that ends takes the episode with it. Its session is told so once; then only a reset helps, which makes a
    new environment in a new process.

    Args:
        processes: Where processes come from.

    Attributes:
        inline: Never: nothing can be called at once.
        environment_name: Name of the environment's class.
        can_snapshot: Whether the environment has ``snapshot`` and ``restore``.
        offers_tools: Whether ``step`` takes the actions that list and call tools.
        tool_names: Names of the tools of the environment's class.
        reset_names: Names of the parameters of ``reset``; ``None`` where it takes any.
        step_names: Names of the options of ``step``, beside the action; ``None`` where it takes any.
        requires_reset: Whether a step before the first reset, or after the end of an episode, is to be refused.
        supports_concurrent_sessions: Whether the environment shares nothing with others of its class.
        session_name: What its session is called in the log, once it has one.
    """

    inline = False

    def __init__(self, processes: Processes) -> None:
        self.environment_name = processes.name
        self.requires_reset = True
        self.can_snapshot = False
        self.offers_tools = False
        self.tool_names: frozenset[str] = frozenset()
        self.reset_names: tuple[str, ...] | None = None
        self.step_names: tuple[str, ...] | None = None
        self.supports_concurrent_sessions = False
        self.session_name: str | None = None
        self._processes = processes
        self._process: EnvironmentProcess | None = None
        self._number = next(_numbers)
        self._closed = False

    @classmethod
    async def make(cls, processes: Processes) -> Self:
        """Make an environment in a process.

        Raises:
            EnvironmentFactoryError: The factory raised, made something else than an environment, or took its process
                down; or no process could be started.
        """
        runner = cls(processes)
        await runner._open()
        return runner

    async def reset(self, arguments: Mapping[str, Any], timeout_s: float | None = None) -> Outcome | WrittenJson:
        """Call ``reset`` with those of the arguments that it accepts; where its process has ended, in a new one."""
        if self._process is not None and self._process.ended is not None:
            self._leave(self._process)
        if self._process is None:
            await self._open()
        return await self._call("reset", arguments, timeout_s=timeout_s)

    async def step(
        self,
        action: Any,
        options: Mapping[str, Any],
        timeout_s: float | None = None,
        on_progress: ProgressListener | None = None,
    ) -> Outcome | WrittenJson:
        """Call ``step`` with the action and those of the options that it accepts."""
        reports = () if on_progress is None else (True,)
        return await self._call("step", action, options, *reports, timeout_s=timeout_s, on_progress=on_progress)

    async def state(self, timeout_s: float | None = None) -> Outcome | WrittenJson:
        """Read the state, which may be a property or a method."""
        return await self._call("state", timeout_s=timeout_s)

    async def render(self, timeout_s: float | None = None) -> WrittenJson:
        """Have the environment show where it stands."""
        picture = await self._call("render", timeout_s=timeout_s)
        assert isinstance(picture, WrittenJson)
        return picture

    async def metadata(self, timeout_s: float | None = None) -> Any:
        """Ask the environment what it is."""
        return _value(await self._call("metadata", timeout_s=timeout_s))

    async def tasks(self, question: TaskQuestion, timeout_s: float | None = None) -> WrittenJson:
        """Ask the environment about its tasks."""
        answer = await self._call("tasks", question, timeout_s=timeout_s)
        assert isinstance(answer, WrittenJson)
        return answer

    async def snapshot(self, timeout_s: float | None = None) -> Snapshot:
        """Take a snapshot; only where ``can_snapshot`` holds. One that takes too long does not end the process.

        Raises:
            ResetNeededError: The environment's process has ended.
        """
        process = self._process
        if process is None or process.ended is not None:  # of which the next call is to tell
            raise ResetNeededError(_NO_PROCESS)
        answer = await within("snapshot", timeout_s, process.call(Call(self._number, "snapshot", ())))
        assert isinstance(answer, WrittenJson)
        return Snapshot.from_json(answer.text)

    async def restore(self, snapshot: Snapshot, timeout_s: float | None = None) -> None:
        """Have the environment take up a snapshot; only where ``can_snapshot`` holds."""
        await self._call("restore", snapshot, timeout_s=timeout_s)

    async def copy(self, place: object, timeout_s: float | None = None) -> NoReturn:
        """Refuse: a copy made with ``copy.deepcopy`` would have to share the process of the original.

        Raises:
            EnvironmentFailedError: Always.
        """
        raise EnvironmentFailedError("a copy would not be in a process of its own")

    async def close(self) -> None:
        """Close the environment and give up its place; a process that only this one used, and that hangs, is killed."""
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
            self._leave(process)

    async def _open(self) -> None:
        self._process = process = await self._processes.join()
        try:
            about = _value(await process.call(Call(self._number, "open", ())))
        except EnvironmentProcessEndedError as error:
            self._leave(process)
            name = self._processes.name
            raise EnvironmentFactoryError(
                name, f"Environment factory '{name}' failed to create instance: its process {error.how}."
            ) from error
        except BaseException:
            process.post(Call(self._number, "close", ()))  # where it was made before it was taken back
            self._leave(process)
            raise
        if self._closed:  # meanwhile, while a reset was making it anew
            await self.close()
        self.environment_name = about["name"]
        self.requires_reset = about["requires_reset"]
        self.can_snapshot = about["can_snapshot"]
        self.offers_tools = about["offers_tools"]
        self.tool_names = frozenset(about["tool_names"])
        self.reset_names = _names(about["reset_names"])
        self.step_names = _names(about["step_names"])
        self.supports_concurrent_sessions = about["supports_concurrent_sessions"]

    async def _call(
        self,
        operation: str,
        *arguments: Any,
        timeout_s: float | None = None,
        on_progress: ProgressListener | None = None,
    ) -> Outcome | WrittenJson:
        process = self._process
        if process is None:
            raise ResetNeededError(_NO_PROCESS)
        try:
            return await process.call(Call(self._number, operation, arguments), timeout_s, on_progress)
        except RequestError:
            if process.ended is not None:
                self._leave(process)
            raise

    def _leave(self, process: EnvironmentProcess) -> None:
        if self._process is process:
            self._process = None
            self._processes.leave(process)


def _names(listed: list[str] | None) -> tuple[str, ...] | None:
    return None if listed is None else tuple(listed)


def _value(answer: Outcome | WrittenJson) -> Any:
    assert isinstance(answer, WrittenJson)
    return from_json(answer.text)
