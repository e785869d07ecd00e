"""The code feedback environment: episodes over tasks, with some attempts each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast
from uuid import uuid4

from pydantic import Field

from openenv.core.env_server.interfaces import Environment
from openenv.core.exceptions import IllegalActionError, ResetNeededError
from openenv.core.sandbox import Kind, SandboxLimits, SandboxPool
from openenv.core.tasks import TaskListing, TaskRef

from ..models import MAX_ATTEMPTS, CodeAction, CodeFeedbackState, CodeObservation, Difficulty
from .feedback import Verdict, judge
from .rewards import CodeFeedbackReward
from .settings import Settings
from .tasks import CodeTask, is_function_name, task_source

_MOST_ATTEMPTS = 1_000
_READY = 2
_LIMITS = SandboxLimits(
    wall_s=20.0, cpu_s=20.0, memory_bytes=256 * 2**20, disk_bytes=16 * 2**20, output_bytes=4 * 2**20, disk_files=1_000
)
_FREE = "Hand in Python code that defines a function, with the function's name."


class CodeFeedbackEnvironment(TaskListing, Environment[CodeAction, CodeObservation, CodeFeedbackState]):
    """Write a function that passes tests, of which some are shown. The reward is the share of them that passes.

    Code that does not define the function gets -0.5. Later attempts get what they add to the best one before. Code runs
    in a sandbox, anew for each attempt; what is right is compared outside.

    Args:
        tasks: A file of tasks, see ``CodeTaskFile``; by default the one that ``CODE_FEEDBACK_TASKS`` names, else they
            are made by chance.
        sandbox: ``auto``, ``bubblewrap`` or ``none``; by default what ``CODE_FEEDBACK_SANDBOX`` says, else ``auto``.

    Raises:
        SandboxUnavailableError: There is no sandbox on this machine, and how to get one.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    DEFAULT_MAX_SESSIONS: ClassVar[int] = 64
    REQUIRES_RESET: ClassVar[bool] = True
    GRADED_FROM: ClassVar[tuple[str, ...]] = ("code",)

    def __init__(self, tasks: str | Path | None = None, sandbox: Kind | None = None) -> None:
        super().__init__(rubric=CodeFeedbackReward())
        settings = Settings.from_variables()
        self._tasks = task_source(tasks or settings.tasks)
        self._sandbox = sandbox or settings.sandbox
        shared_pool(self._sandbox).warm()
        self._task: CodeTask | None = None
        self._over = True
        self._state = CodeFeedbackState()
        self._text = ""

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        split: str | None = None,
        index: int | None = None,
        difficulty: Difficulty | None = None,
        max_attempts: Annotated[int, Field(ge=1, le=_MOST_ATTEMPTS)] = MAX_ATTEMPTS,
        tests: bool = True,
    ) -> CodeObservation:
        """Ask for a function.

        Args:
            seed: Chooses the task where no index does: the same seed, the same task; ``None`` gives any.
            episode_id: Name of the episode; a new one is made up where there is none.
            split: ``train``, which is the default, ``validation`` or ``test``; those of the file where there is one.
            index: The task's index in its split.
            difficulty: ``easy``, ``medium`` or ``hard``; left to the task where it is ``None``.
            max_attempts: How often code may be handed in.
            tests: Whether there is a task. Without one, all code that defines the function that it names gets 1.0, as
                often as one likes.

        Returns:
            The task.

        Raises:
            TaskNotFoundError: There is no such task. The running episode continues.
            InvalidRequestError: The tasks come from a file, which has no difficulties.
        """
        name = {"episode_id": episode_id or str(uuid4())}
        if tests is False:
            self._begin(None, CodeFeedbackState(**name))
            return self._observation("ok", output=_FREE, text=_FREE)
        place = self._tasks.choose_task(split, index, seed)
        task = self._tasks.make(place, difficulty)
        state = CodeFeedbackState(
            **name,
            split=place.split,
            index=place.index,
            difficulty=difficulty,
            function_name=task.function_name,
            attempts_left=max_attempts,
            total=len(task.tests),
        )
        self._begin(task, state)
        left = f"Attempts: {max_attempts}. Tests: {len(task.tests)}, of which some are not shown."
        return self._observation("ok", text=f"{task.text}\n{left}")

    def step(self, action: CodeAction) -> CodeObservation:
        """Run code, and return its faults.

        Args:
            action: The code.

        Returns:
            The faults.

        Raises:
            IllegalActionError: The function has another name than that of the task, or one that none can have. It is
                not counted.
            ResetNeededError: There is no episode, or it is over.
        """
        if self._over:
            raise ResetNeededError("There is no running episode to hand in code for; call reset first.")
        self._check_name(action.function_name)
        with shared_pool(self._sandbox).take() as sandbox:
            verdict = judge(sandbox, action, () if self._task is None else self._task.tests)
        observation = self._counted(verdict)
        observation.reward = self._apply_rubric(action, observation)
        return observation

    @property
    def state(self) -> CodeFeedbackState:
        """Task that is played, and state of the attempts."""
        return self._state

    def render(self) -> str:
        """Return the task, or what the last attempt gave, as text."""
        return self._text

    def snapshot(self) -> dict[str, Any]:
        """Return all that the episode's future depends on: its task, and the results of the attempts."""
        return {"state": self._state.model_dump(mode="json"), "over": self._over, "text": self._text}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue an episode; its task is made again."""
        self._state = CodeFeedbackState.model_validate(snapshot["state"])
        self._over, self._text = snapshot["over"], snapshot["text"]
        if self._state.split is not None and self._state.index is not None:
            self._task = self._tasks.make(TaskRef(self._state.split, self._state.index), self._state.difficulty)

    @property
    def task_counts(self) -> Mapping[str, int | None]:
        """Number of tasks of each split."""
        return self._tasks.task_counts

    def _begin(self, task: CodeTask | None, state: CodeFeedbackState) -> None:
        self._task, self._state, self._over = task, state, False

    def _check_name(self, name: str) -> None:
        if self._task is not None and name != self._task.function_name:
            raise IllegalActionError(f"Expected the function_name {self._task.function_name!r}, got {name!r}.")
        if not is_function_name(name):
            raise IllegalActionError(f"Expected a name that a function in Python can have, got {name!r}.")

    def _counted(self, verdict: Verdict) -> CodeObservation:
        state, has_task = self._state, self._task is not None
        left = None if state.attempts_left is None else state.attempts_left - 1
        self._state = state.model_copy(
            update={
                "step_count": state.step_count + 1,
                "attempts_left": left,
                "best": max(state.best, verdict.passed),
            }
        )
        solved = has_task and verdict.passed == state.total
        self._over = solved or left == 0
        text = verdict.text if left is None or solved else f"{verdict.text}\nAttempts left: {left}."
        return self._observation(
            verdict.status,
            output=verdict.output,
            error=verdict.error,
            execution_time_ms=verdict.execution_time_ms,
            passed=verdict.passed if has_task else None,
            gained=max(0, verdict.passed - state.best) if has_task else None,
            text=text,
            done=self._over,
        )

    def _observation(self, status: str, **fields: Any) -> CodeObservation:
        self._text = fields["text"]
        task = self._task
        return CodeObservation(
            status=cast("Any", status),
            prompt="" if task is None else task.text,
            function_name=None if task is None else task.function_name,
            total=None if task is None else len(task.tests),
            attempts_left=self._state.attempts_left,
            **fields,
        )


def shared_pool(kind: Kind) -> SandboxPool:
    """Return the pool that all sessions of this process take their sandboxes from.

    Args:
        kind: What keeps code in.

    Raises:
        SandboxUnavailableError: There is no sandbox on this machine, and how to get one.
    """
    return SandboxPool.shared(_READY, _LIMITS, kind)
