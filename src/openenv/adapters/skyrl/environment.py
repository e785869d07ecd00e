"""A SkyRL-Gym environment as one to serve."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import skyrl_gym
from omegaconf import OmegaConf
from pydantic import Field

from openenv.adapters.skyrl.tasks import Task, messages_of, read_tasks
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State
from openenv.core.exceptions import InvalidRequestError, ResetNeededError, TaskNotFoundError

__all__ = ["ConversationObservation", "ReplyAction", "SkyRLEnvironment", "SkyRLState"]

# What environments raise for a task that lacks what they need.
_TASK_FAULTS = (AssertionError, AttributeError, LookupError, NotImplementedError, OSError, TypeError, ValueError)


class ReplyAction(Action):
    """Say something."""

    text: str = Field(description="what to say")


class ConversationObservation(Observation):
    """What is new in the conversation."""

    text: str = Field(default="", description="what the new messages say, as one text")
    messages: list[dict[str, Any]] = Field(default_factory=list, description="the new messages, with role and content")
    postprocessed_action: str | None = Field(
        default=None, description="the reply as the environment took it, where it did not take all of it"
    )


class SkyRLState(State):
    """Where the conversation stands."""

    split: str | None = Field(default=None, description="the split that the task is of")
    index: int | None = Field(default=None, description="the task's index in its split")
    metrics: dict[str, Any] = Field(default_factory=dict, description="the environment's own metrics of the episode")


class SkyRLEnvironment(Environment[ReplyAction, ConversationObservation, SkyRLState]):
    """A text environment of SkyRL-Gym: a reset gives the prompt, a step is a reply.

    ``environment_for`` makes one of an id, after checks that this class does not repeat.

    Args:
        env_id: SkyRL-Gym's id.
        settings: The environment's configuration; it is handed on as OmegaConf's, which is what SkyRL does.
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
        self._tasks = {} if tasks is None else read_tasks(tasks)
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
            prompt: A task of one's own: a text, or messages with role and content.
            **extras: The other fields of a task of one's own, such as ``reward_spec``.

        Raises:
            TaskNotFoundError: There is no such task.
            InvalidRequestError: The task is not as the environment needs it.
        """
        state = SkyRLState(episode_id=episode_id)
        if prompt is None:
            state.split, state.index = self._choose(split, index, seed)
            task = self._tasks[state.split][state.index]
        else:
            task = {"prompt": prompt, **extras}
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
            reward=float(seen["reward"]),
            done=bool(seen["done"]),
            metadata=seen.get("metadata"),
            postprocessed_action=seen.get("postprocessed_action"),
        )

    @property
    def state(self) -> SkyRLState:
        """Which task is played, and the environment's metrics."""
        if self._env is not None:
            self._state.metrics = dict(self._env.get_metrics())
        return self._state

    def close(self) -> None:
        """Close SkyRL-Gym's environment."""
        env, self._env = self._env, None
        if env is not None:
            env.close()

    def get_metadata(self) -> EnvironmentMetadata:
        """Say which environment it is."""
        return EnvironmentMetadata(name=f"skyrl:{self.id}", description=f"SkyRL-Gym's text environment {self.id}.")

    def list_splits(self) -> list[str]:
        """Name the splits."""
        return list(self._tasks)

    def num_tasks(self, split: str) -> int:
        """Return how many tasks a split has."""
        return len(self._of(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return what a reset is passed for a task. The task itself stays here: it may hold the solution."""
        self._check_index(split, index)
        return {"split": split, "index": index}

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """Return what a reset is passed for each task."""
        return self.get_task_range(split)

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Return what a reset is passed for the tasks from ``start`` up to ``stop``."""
        return [{"split": split, "index": index} for index in range(self.num_tasks(split))[start:stop]]

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

    def _choose(self, split: str | None, index: int | None, seed: int | None) -> tuple[str, int]:
        if not self._tasks:
            raise InvalidRequestError(
                f"Expected a task: pass prompt=... and what else skyrl:{self.id} needs to reset, or serve it with a "
                f"file of tasks, as in skyrl:{self.id}?tasks=train.jsonl."
            )
        split = next(iter(self._tasks)) if split is None else split
        if index is None:
            count = max(1, len(self._of(split)))
            index = random.randrange(count) if seed is None else seed % count  # noqa: S311  # nothing to be guarded
        self._check_index(split, index)
        return split, index

    def _of(self, split: str) -> Any:
        if split not in self._tasks:
            raise TaskNotFoundError(
                f"Expected one of the splits {', '.join(self._tasks) or '(none)'}, got {split!r:.100}."
            )
        return self._tasks[split]

    def _check_index(self, split: str, index: int) -> None:
        count = len(self._of(split))
        if not 0 <= index < count:
            raise TaskNotFoundError(f"Expected an index from 0 to {count - 1} in the split {split}, got {index}.")


def _observation(
    messages: list[dict[str, Any]], metadata: Mapping[str, Any] | None = None, **fields: Any
) -> ConversationObservation:
    messages = [dict(message) for message in messages]
    text = "\n\n".join(message["content"] for message in messages if isinstance(message["content"], str))
    return ConversationObservation(text=text, messages=messages, metadata=dict(metadata or {}), **fields)
