"""An environment that an ORS server holds, as an environment of OpenEnv."""

import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from openreward import AsyncEnvironmentsAPI, AsyncOpenReward, AsyncSession
from openreward.api.environments.client import AsyncEnvironment
from openreward.api.environments.types import Task
from openreward.api.errors import SessionTerminatedError, ToolCallError, ToolFailed

from openenv.adapters.ids import short_name
from openenv.adapters.ors.errors import as_ours, message_of
from openenv.adapters.ors.results import (
    OrsObservation,
    images_of,
    observation_of,
    offered_terminal_tool,
    offered_tool,
    refusal,
    text_of,
)
from openenv.adapters.task_list import TaskListEnvironment, index_in_split
from openenv.core.env_server.mcp_types import CallToolAction, Tool
from openenv.core.env_server.types import EnvironmentMetadata, State
from openenv.core.exceptions import ConfigurationError, EnvironmentFailedError
from openenv.core.wire.redaction import remember_secret

__all__ = ["OrsEnvironment"]

KEY_VARIABLE = "OPENREWARD_API_KEY"
# A server that is reached by its address ignores the name.
_ANY_NAME = "environment"
_TARGET = re.compile(r"https?://[^/\s]\S*|[\w.-]+(/[\w.-]+)?")

Secrets = Mapping[str, str | tuple[str, list[str]]]


class OrsEnvironment(TaskListEnvironment[OrsObservation, AsyncSession]):
    """An environment of an ORS server. Its tools are the server's; a reset opens a session there and gives the prompt.

    Sessions are kept alive by pings, however long a call or a pause takes. All methods that send requests to the server
    are ``async``.

    Args:
        target: The server's address, or a name of OpenReward's catalog, as in ``Eigent/SETA``.
        environment: Which environment of the server; by default its first one.
        split: The split whose tasks are played where a reset names no other.
        api_key: Key of the server; by default that in ``OPENREWARD_API_KEY``.
        secrets: Secrets that each session passes to the environment, as the SDK takes them.

    Raises:
        ConfigurationError: The target is no address and no name.

    Example:
        >>> env = OrsEnvironment("http://localhost:8080")
        >>> prompt = await env.reset(index=0)  # doctest: +SKIP
        >>> result = await env.step(CallToolAction(tool_name="echo", arguments={"text": "hello"}))  # doctest: +SKIP
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def __init__(
        self,
        target: str,
        *,
        environment: str | None = None,
        split: str = "train",
        api_key: str | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        super().__init__()
        self.target = checked_target(target)
        self.split = split
        self._variant = environment
        remember_secret(api_key)
        self._api_key = api_key or os.environ.get(KEY_VARIABLE) or None
        self._secrets = secrets
        self._api: AsyncEnvironmentsAPI | None = None

    async def _begin(
        self, seed: int | None, split: str | None, index: int | None, task_spec: dict[str, Any] | None
    ) -> tuple[OrsObservation, State]:
        """Open a session for a task, instead of the one that is open.

        Raises:
            TaskNotFoundError: The server has no such task.
            EnvironmentFailedError: It refuses, or can't be reached.
        """
        await self._end_session()
        with as_ours(self.target):
            if task_spec is not None:
                session = self._remote.session(task=self._task(task_spec), secrets=self._secrets)
            else:
                split = split or self.split
                if index is None:
                    index = index_in_split(split, await self._remote.num_tasks(split), seed)
                session = self._remote.session(split=split, index=index, secrets=self._secrets)
            await _enter(session)
            self._episode = session
            blocks = await session.get_prompt()
        return OrsObservation(prompt=text_of(blocks), images=images_of(blocks)), State(episode_id=session.sid)

    def get_metadata(self) -> EnvironmentMetadata:
        """Return the server's name and description."""
        name = f"ors:{short_name(self.target)}"
        return EnvironmentMetadata(name=name, description=f"What the ORS server {self.target} holds.")

    async def close(self) -> None:  # type: ignore[override]  # what returns something to await may stand for it
        """End the session on the server, and the connections to it."""
        await self._end_session()
        if self._api is not None:
            await self._api.aclose()
            self._api = None

    async def list_splits(self) -> list[str]:
        """Name the splits of the server's tasks."""
        with as_ours(self.target):
            splits: list[str] = await self._remote.list_splits()
        return splits

    async def list_tasks(self, split: str) -> list[Mapping[str, Any]]:
        """Return every task of a split."""
        with as_ours(self.target):
            return [task.task_spec for task in await self._remote.list_tasks(split)]

    async def num_tasks(self, split: str) -> int:
        """Return the number of tasks of a split."""
        with as_ours(self.target):
            count: int = await self._remote.num_tasks(split)
        return count

    async def get_task(self, split: str, index: int) -> Mapping[str, Any]:
        """Return one task."""
        with as_ours(self.target):
            task: Mapping[str, Any] = (await self._remote.get_task(split, index)).task_spec
        return task

    async def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[Mapping[str, Any]]:
        """Return the tasks from ``start`` up to ``stop``."""
        with as_ours(self.target):
            return [task.task_spec for task in await self._remote.get_task_range(split, start, stop)]

    @property
    def _remote(self) -> AsyncEnvironment:
        """Return the environment of the SDK; its connections belong to the loop that runs."""
        is_address = "://" in self.target
        if self._api is None and is_address:
            self._api = AsyncEnvironmentsAPI(base_url=self.target.rstrip("/"), api_key=self._api_key)
        elif self._api is None:
            self._api = AsyncOpenReward(api_key=self._api_key).environments
        return self._api.get(_ANY_NAME if is_address else self.target, variant=self._variant)

    def _task(self, task_spec: Mapping[str, Any]) -> Task:
        remote = self._remote
        return Task(
            server_name=remote.server,
            environment_name=self._variant,
            task_spec=task_spec,
            namespace=remote.namespace,
        )

    async def _tools(self) -> list[Tool]:
        with as_ours(self.target):
            offered = self._remote if self._episode is None else self._episode
            tools = [
                offered_tool(spec.name, spec.description, spec.input_schema) for spec in await offered.list_tools()
            ]
            terminal = await offered.terminal_tool()
        if terminal is not None:
            tools.append(offered_terminal_tool(terminal.name, terminal.description, terminal.arg))
        return tools

    async def _call(self, episode: AsyncSession, action: CallToolAction) -> OrsObservation:
        with as_ours(self.target):
            try:
                return observation_of(action, await episode.call_tool(action.tool_name, action.arguments))
            except ToolCallError as error:
                return refusal(action, error.reason, error.detail)
            except (ToolFailed, SessionTerminatedError) as error:
                await self._end_session()
                raise EnvironmentFailedError(
                    f"The ORS server {self.target} has ended the session, so only a reset helps: {message_of(error)}"
                ) from error

    async def _end_session(self) -> None:
        session, self._episode = self._episode, None
        if session is not None:
            await session.__aexit__(None, None, None)


def checked_target(target: str) -> str:
    """Return the address of an ORS environment, which clients may see.

    Raises:
        ConfigurationError: It is no address and no name, or holds a password.
    """
    if "@" in target.partition("://")[2].partition("/")[0]:
        raise ConfigurationError(
            f"Expected an ORS server's address without a user or password; put the key into {KEY_VARIABLE}, or pass "
            "api_key=."
        )
    if _TARGET.fullmatch(target) is None:
        raise ConfigurationError(
            f"Expected an ORS server's address, as in http://localhost:8080, or a name such as Eigent/SETA; got "
            f"{target!r}."
        )
    return target


async def _enter(session: AsyncSession) -> None:
    try:
        await session.__aenter__()
    except BaseException:
        await session.__aexit__(None, None, None)
        raise
