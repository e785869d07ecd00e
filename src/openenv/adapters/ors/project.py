"""An environment class of an ORS project as an environment: its code, without a server of the OpenReward SDK."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar

from openreward.environments import Environment as OrsClass
from openreward.environments.session import call_session_tool, list_session_tools
from openreward.environments.utils import run_user_callable

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
from openenv.core.env_server.types import State
from openenv.core.exceptions import ConfigurationError, TaskNotFoundError
from openenv.core.rubrics import Rubric, RubricDict
from openenv.core.wire.redaction import remember_secret

__all__ = ["OrsProjectEnvironment", "ToolRewards"]


class _ToolReward(Rubric):
    """Reward that a tool gave."""

    def forward(self, action: Any, observation: Any) -> Any:
        return observation.reward


class ToolRewards(RubricDict):
    """Reward that the called tool gave; each tool that gives rewards is a component by its name."""

    def forward(self, action: Any, observation: Any) -> Any:
        """Score a call."""
        if action.tool_name not in self:
            self[action.tool_name] = _ToolReward()
        return self[action.tool_name](action, observation)

    def component_weights(self) -> Mapping[str, float]:
        """Return the weights, 1 for each tool."""
        return dict.fromkeys(self, 1.0)


class OrsProjectEnvironment(TaskListEnvironment[OrsObservation, OrsClass]):
    """Environment that plays a class of the OpenReward SDK in this process: ``ors_class`` of a subclass.

    A reset makes an instance for a task and returns its prompt; actions are calls of its tools. The tool that takes a
    model's plain message is offered as a tool, too.

    Attributes:
        ors_class: The class.
        SECRETS: Names of environment variables, by the names of the secrets that instances are passed from them.

    Example::

        class RiddleEnvironment(OrsProjectEnvironment):
            SUPPORTS_CONCURRENT_SESSIONS = True
            SECRETS = {"openai_api_key": "OPENAI_API_KEY"}
            ors_class = Riddle
    """

    ors_class: ClassVar[type[OrsClass]]
    SECRETS: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check that the class is an environment of the SDK.

        Raises:
            ConfigurationError: It is none.
        """
        super().__init_subclass__(**kwargs)
        named = getattr(cls, "ors_class", None)
        if not (isinstance(named, type) and issubclass(named, OrsClass)):
            raise ConfigurationError(
                f"{cls.__name__}.ors_class: expected a class that extends openreward.environments.Environment, "
                f"got {named!r:.100}."
            )

    def __init__(self) -> None:
        super().__init__(rubric=ToolRewards())

    async def _begin(
        self, seed: int | None, split: str | None, index: int | None, task_spec: dict[str, Any] | None
    ) -> tuple[OrsObservation, State]:
        """Make an instance for a task, instead of the one before.

        Raises:
            TaskNotFoundError: There is no such task.
        """
        await self.close()
        await self._reset_rubric_async()
        listed: dict[str, Any] = {}
        if task_spec is None:
            split = split or next(iter(await self.list_splits()), "train")
            if index is None:
                index = index_in_split(split, await self.num_tasks(split), seed)
            task_spec = dict(await self.get_task(split, index))
            listed = {"split": split, "index": index}
        self._episode = await run_user_callable(self.ors_class, task_spec=task_spec, secrets=self._secrets())
        try:
            await run_user_callable(self._episode.setup)
            blocks = await run_user_callable(self._episode.get_prompt)
        except BaseException:
            with suppress(Exception):  # the failure of what is half made hides no other
                await self.close()
            raise
        state = State(source_type="ors", task_spec=task_spec, **listed)
        return OrsObservation(prompt=text_of(blocks), images=images_of(blocks)), state

    async def close(self) -> None:  # type: ignore[override]  # what returns something to await may stand for it
        """Tear down the instance of the episode, if there is one."""
        instance, self._episode = self._episode, None
        if instance is not None:
            await run_user_callable(instance.teardown)

    async def list_splits(self) -> list[str]:
        """Name the splits."""
        splits = await run_user_callable(self.ors_class.list_splits)
        return [split if isinstance(split, str) else split.name for split in splits]

    async def list_tasks(self, split: str) -> list[Mapping[str, Any]]:
        """Return every task of a split."""
        return list(await self._of_split(self.ors_class.list_tasks, split))

    async def num_tasks(self, split: str) -> int:
        """Return the number of tasks of a split."""
        return int(await self._of_split(self.ors_class.num_tasks, split))

    async def get_task(self, split: str, index: int) -> Mapping[str, Any]:
        """Return one task.

        Raises:
            TaskNotFoundError: There is no such task.
        """
        count = await self.num_tasks(split)
        if type(index) is not int or not 0 <= index < count:
            raise TaskNotFoundError(
                f"Expected an index from 0 to {count - 1} in the split {split}, got {index!r:.100}."
            )
        task: Mapping[str, Any] = await self._of_split(self.ors_class.get_task, split, index)
        return task

    async def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[Mapping[str, Any]]:
        """Return the tasks from ``start`` up to ``stop``."""
        return list(await self._of_split(self.ors_class.get_task_range, split, start, stop))

    async def _of_split(self, method: Callable[..., Any], split: str, *arguments: Any) -> Any:
        known = await self.list_splits()
        if split not in known:
            raise TaskNotFoundError(f"Expected one of the splits {', '.join(known) or '(none)'}, got {split!r:.100}.")
        return await run_user_callable(method, split, *arguments)

    async def _tools(self) -> list[Tool]:
        listed = self.ors_class.list_tools() if self._episode is None else await list_session_tools(self._episode, None)
        tools = [offered_tool(spec.name, spec.description, spec.input_schema) for spec in listed.tools]
        terminal = listed.terminal_tool
        if terminal is not None:
            tools.append(offered_terminal_tool(terminal.name, terminal.description, terminal.arg))
        return tools

    async def _call(self, episode: OrsClass, action: CallToolAction) -> OrsObservation:
        outcome = (await call_session_tool(episode, None, action.tool_name, action.arguments)).root
        if not outcome.ok:
            return refusal(action, outcome.reason, outcome.error)
        observation = observation_of(action, outcome.output)
        if observation.reward is not None:
            observation.reward = await self._apply_rubric_async(action, observation)
        return observation

    def _secrets(self) -> dict[str, str]:
        secrets = {name: os.environ[variable] for name, variable in self.SECRETS.items() if variable in os.environ}
        for secret in secrets.values():
            remember_secret(secret)
        return secrets
