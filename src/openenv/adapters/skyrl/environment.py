"""A SkyRL-Gym environment as an environment to serve."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import skyrl_gym
from omegaconf import OmegaConf
from pydantic import Field

from openenv.adapters.skyrl.tasks import check_task, messages_of
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State
from openenv.core.exceptions import InvalidRequestError, ResetNeededError
from openenv.core.plain_values import single_value
from openenv.core.tasks import Splits, Task, TaskListing, read_tasks

__all__ = ["ConversationObservation", "ReplyAction", "SkyRLEnvironment", "SkyRLState"]

# What environments raise for a task that lacks what they need.
_TASK_FAULTS = (AssertionError, AttributeError, LookupError, NotImplementedError, OSError, TypeError, ValueError)


class ReplyAction(Action):
    """Reply."""

    text: str = Field(description="text of the reply")


class ConversationObservation(Observation):
    """New messages of the conversation."""

    text: str = Field(default="", description="texts of the new messages, as one")
    messages: list[dict[str, Any]] = Field(default_factory=list, description="the new messages, with role and content")
    postprocessed_action: str | None = Field(
        default=None, description="the reply as the environment took it, where it did not take all of it"
    )


class SkyRLState(State):
    """State of the conversation."""

    split: str | None = Field(default=None, description="the split that the task is of")
    index: int | None = Field(default=None, description="the task's index in its split")
    metrics: dict[str, Any] = Field(default_factory=dict, description="the environment's own metrics of the episode")


class SkyRLEnvironment(TaskListing, Environment[ReplyAction, ConversationObservation, SkyRLState]):
    """A text environment of SkyRL-Gym: a reset gives the prompt, a step is a reply.

    ``environment_for`` makes one of an id, after checks that this class does not repeat.

    Args:
        env_id: SkyRL-Gym's id.
        settings: The environment's configuration; it is passed as OmegaConf's, as SkyRL does.
        extras: What every task has, unless it has its own.
        tasks: The file that lists the tasks.

    Example:
        >>> env = SkyRLEnvironment("gsm8k")
        >>> env.reset(prompt="2 + 2?", reward_spec={"ground_truth": "4"}).text
        '2 + 2?'
        >>> env.step(ReplyAction(text="#### 4")).reward
        1.0
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    REQUIRES_RESET: ClassVar[bool] = True

    def __init__(
        self,
        env_id: str,
        settings: Mapping[str, Any] | None = None,
        extras: Mapping[str, Any] | None = None,
        tasks: Path | None = None,
    ) -> None:
        super().__init__()
        self.id = env_id
        self.settings = dict(settings or {})
        self.extras = dict(extras or {})
        self._tasks: Splits = {} if tasks is None else read_tasks(tasks, check_task)
        self._env: Any = None
        self._state = SkyRLState()

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        split: str | None = None,
        index: int | None = None,
        prompt: list[dict[str, Any]] | str | None = None,
        **extras: Any,
    ) -> ConversationObservation:
        """Start a conversation.

        Args:
            seed: Chooses the task where neither an index nor a prompt does: the same seed, the same task, and
                neighbouring seeds neighbouring tasks. Without it it is any.
            episode_id: Names the episode.
            split: The split of the file of tasks; by default its first one.
            index: The task's index in its split.
            prompt: A task that no file lists: a text, or messages with role and content.
            **extras: The other fields of that task, such as ``reward_spec``.

        Raises:
            TaskNotFoundError: There is no such task.
            InvalidRequestError: The task is not as the environment needs it.
        """
        state = SkyRLState(episode_id=episode_id)
        task: Task = {"prompt": prompt, **extras}
        if prompt is None:
            self._check_listed()
            task_ref = self.choose_task(split, index, seed)
            state.split, state.index = task_ref.split, task_ref.index
            task = copy.deepcopy(self._tasks[task_ref.split][task_ref.index])  # which all sessions share
        self.close()
        messages, metadata = self._start(task)
        self._state = state
        return _observation(messages, metadata=metadata)

    def step(self, action: ReplyAction) -> ConversationObservation:
        """Reply.

        Raises:
            ResetNeededError: There is no conversation.
        """
        if self._env is None:
            raise ResetNeededError("Expected a reset first: there is no conversation.")
        seen = self._env.step(action.text)
        self._state.step_count += 1
        return _observation(
            seen["observations"],
            reward=float(single_value(seen["reward"])),
            done=bool(seen["done"]),
            metadata=seen.get("metadata"),
            postprocessed_action=seen.get("postprocessed_action"),
        )

    @property
    def state(self) -> SkyRLState:
        """The task that is played, and the environment's metrics."""
        if self._env is not None:
            self._state.metrics = dict(self._env.get_metrics())
        return self._state

    def close(self) -> None:
        """Close SkyRL-Gym's environment."""
        env, self._env = self._env, None
        if env is not None:
            env.close()

    def get_metadata(self) -> EnvironmentMetadata:
        """Return the environment's name and description."""
        return EnvironmentMetadata(name=f"skyrl:{self.id}", description=f"SkyRL-Gym's text environment {self.id}.")

    @property
    def task_counts(self) -> dict[str, int]:
        """Number of tasks of each split of the file."""
        return {split: len(tasks) for split, tasks in self._tasks.items()}

    def _check_listed(self) -> None:
        if not self._tasks:
            raise InvalidRequestError(
                f"Expected a task: pass prompt=... and what else skyrl:{self.id} needs to reset, or serve it with a "
                f"file of tasks, as in skyrl:{self.id}?tasks=train.jsonl."
            )

    def _start(self, task: Task) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        extras = {**self.extras, **{name: value for name, value in task.items() if name != "prompt"}}
        try:
            prompt = messages_of(task["prompt"])
            env = skyrl_gym.make(self.id, env_config=OmegaConf.create(self.settings), extras=extras)
        except _TASK_FAULTS as error:
            raise InvalidRequestError(f"skyrl:{self.id} can't be made with this task: {error}") from error
        self._env = env
        messages, metadata = env.init(prompt)
        return messages, metadata


def _observation(
    messages: list[dict[str, Any]], metadata: Mapping[str, Any] | None = None, **fields: Any
) -> ConversationObservation:
    messages = [dict(message) for message in messages]
    text = "\n\n".join(message["content"] for message in messages if isinstance(message["content"], str))
    return ConversationObservation(text=text, messages=messages, metadata=dict(metadata or {}), **fields)
