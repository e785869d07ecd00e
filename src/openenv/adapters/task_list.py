"""Base of environments of other libraries whose tasks are listed by splits, and whose actions are calls of tools."""

from typing import Any, ClassVar, Generic, TypeVar
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
)
from openenv.core.env_server.types import State
from openenv.core.exceptions import ResetNeededError, TaskNotFoundError
from openenv.core.rubrics import Rubric
from openenv.core.tasks.listed_tasks import index_by_seed, whole_seed

ObsT = TypeVar("ObsT", bound=CallToolObservation)
EpisodeT = TypeVar("EpisodeT")


class TaskListEnvironment(Environment[CallToolAction, ObsT, State], Generic[ObsT, EpisodeT]):
    """Environment whose reset begins a task and returns its prompt, and whose steps list the tools or call one."""

    OFFERS_TOOLS: ClassVar[bool] = True
    REQUIRES_RESET: ClassVar[bool] = True

    def __init__(self, rubric: Rubric | None = None) -> None:
        super().__init__(rubric=rubric)
        self._episode: EpisodeT | None = None
        """The library's own object of the episode under way; set by ``_begin``."""
        self._state = State()

    async def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        split: str | None = None,
        index: int | None = None,
        task_spec: dict[str, Any] | None = None,
    ) -> ObsT:
        """Begin an episode with a task; an episode that is under way ends.

        Args:
            seed: Chooses the task where no index does: the same seed, the same task, and neighbouring seeds
                neighbouring tasks. Without either it is any.
            episode_id: Name of the episode; a new one is made up where there is none.
            split: The split that the task is listed in; by default the first one.
            index: Where it is listed there.
            task_spec: The task itself, which need not be listed.

        Raises:
            TaskNotFoundError: There is no such task.
        """
        observation, state = await self._begin(seed, split, index, task_spec)
        state.episode_id = episode_id or state.episode_id or str(uuid4())
        self._state = state
        return observation

    async def step(self, action: CallToolAction | ListToolsAction) -> ObsT | ListToolsObservation:
        """List the tools, or call one.

        Returns:
            The tools, or what the tool gave with its reward; ``done`` once the episode has ended.

        Raises:
            ResetNeededError: No episode is being played.
        """
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(tools=await self._tools())
        if self._episode is None:
            raise ResetNeededError("Expected a reset before the first call of a tool.")
        self._state.step_count += 1
        return await self._call(self._episode, action)

    @property
    def state(self) -> State:
        """The episode's name, its steps so far and its task."""
        return self._state

    async def _begin(
        self, seed: int | None, split: str | None, index: int | None, task_spec: dict[str, Any] | None
    ) -> tuple[ObsT, State]:
        """Begin an episode as ``reset`` does; return the prompt and the episode's state."""
        raise NotImplementedError

    async def _tools(self) -> list[Tool]:
        """List the tools of the episode, or those of every episode."""
        raise NotImplementedError

    async def _call(self, episode: EpisodeT, action: CallToolAction) -> ObsT:
        """Call a tool in the episode."""
        raise NotImplementedError


def index_in_split(split: str, count: int, seed: int | None) -> int:
    """Choose a task of a split by a seed.

    Raises:
        TaskNotFoundError: The split has no task.
        InvalidRequestError: The seed is no whole number.
    """
    if count < 1:
        raise TaskNotFoundError(f"The split {split!r} has no task.")
    return index_by_seed(count, None if seed is None else whole_seed(seed))
