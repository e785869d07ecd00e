"""A dataset of reasoning-gym as an environment of one step."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar
from uuid import uuid4

from openenv.adapters.reasoning_gym.datasets import ReasoningTasks
from openenv.adapters.reasoning_gym.models import AnswerAction, ReasoningObservation, ReasoningState
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata
from openenv.core.exceptions import ResetNeededError
from openenv.core.tasks import TaskListing

__all__ = ["ReasoningEnvironment"]

# Errors that datasets raise for an answer that is not of the form that they read.
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class ReasoningEnvironment(TaskListing, Environment[AnswerAction, ReasoningObservation, ReasoningState]):
    """A dataset of reasoning-gym: a reset gives a question, the one step answers it, the score is the reward.

    ``environment_for`` makes one of an id, after checks that this class does not repeat.

    Args:
        dataset: The dataset's name.
        arguments: Its own parameters, among them ``seed`` and ``size``, which make its tasks.

    Example:
        >>> env = ReasoningEnvironment("chain_sum", {"seed": 7})
        >>> env.reset(index=0).text
        'State the final answer to the following arithmetic problem: 72 + 93 - 41 + 67 + 56 ='
        >>> env.step(AnswerAction(answer="247")).reward
        1.0
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    REQUIRES_RESET: ClassVar[bool] = True

    def __init__(self, dataset: str, arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.dataset = dataset
        self.arguments = dict(arguments or {})
        self._tasks = ReasoningTasks(dataset, self.arguments)
        self._entry: dict[str, Any] | None = None
        self._outcome: str | None = None
        self._state = ReasoningState(dataset=dataset)

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        split: str | None = None,
        index: int | None = None,
    ) -> ReasoningObservation:
        """Give a question.

        Args:
            seed: Chooses the task where no index does: the same seed, the same task, and neighbouring seeds
                neighbouring tasks. Without either it is any.
            episode_id: Name of the episode; a new one is made up where there is none.
            split: ``train``, which is the default, ``validation`` or ``test``.
            index: The task's index in its split.

        Raises:
            TaskNotFoundError: There is no such task, or no question of the dataset is of the split.
        """
        task_ref = self.choose_task(split, index, seed)
        self._entry, self._outcome = self._tasks.make(task_ref), None
        episode_id = episode_id or str(uuid4())
        self._state = ReasoningState(
            episode_id=episode_id, dataset=self.dataset, split=task_ref.split, index=task_ref.index
        )
        return ReasoningObservation(text=self._entry["question"], metadata=asdict(task_ref))

    def step(self, action: AnswerAction) -> ReasoningObservation:
        """Score the answer, which ends the episode.

        An answer that the dataset's own scoring can't read, and raises an error for, is worth nothing; the metadata's
        ``score_error`` then has that error.

        Raises:
            ResetNeededError: No question is open.
        """
        entry = self._entry
        if entry is None:
            raise ResetNeededError("Expected a reset first: no question is open.")
        report = {"answer": entry["answer"], "task": entry["metadata"]}
        try:
            reward = float(self._tasks.dataset.score_answer(action.answer, entry))
        except _UNREADABLE as error:
            reward, report["score_error"] = 0.0, f"{type(error).__name__}: {error}"
        self._entry, self._outcome = None, f"score {reward:g}; the dataset's own answer: {entry['answer']}"
        self._state.step_count += 1
        return ReasoningObservation(done=True, reward=reward, metadata=report)

    @property
    def state(self) -> ReasoningState:
        """The task that is played, and whether it was answered."""
        return self._state

    def render(self) -> str | None:
        """Show a person how the answer was scored, once there is one."""
        return self._outcome

    def get_metadata(self) -> EnvironmentMetadata:
        """Return the dataset's name and description."""
        return EnvironmentMetadata(
            name=f"reasoning_gym:{self.dataset}",
            description=f"Questions of reasoning-gym's dataset {self.dataset}; a step answers it.",
        )

    @property
    def task_counts(self) -> Mapping[str, int]:
        """Number of tasks of each split."""
        return self._tasks.task_counts
