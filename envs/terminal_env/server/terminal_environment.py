"""The terminal environment: episodes over tasks, each in a sandbox of its own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn
from uuid import uuid4

from pydantic import Field

from openenv.core.env_server.interfaces import Environment
from openenv.core.exceptions import (
    ConfigurationError,
    IllegalActionError,
    ResetNeededError,
    SandboxFileError,
)
from openenv.core.sandbox import Execution, Kind, Sandbox
from openenv.core.tasks import TaskListing, TaskRef

from ..models import (
    MAX_STEPS,
    MAX_TEXT,
    Difficulty,
    Family,
    ReadFileAction,
    RunAction,
    SubmitAction,
    TerminalAction,
    TerminalObservation,
    TerminalState,
    WriteFileAction,
)
from .boxes import shared_pool
from .checks import Checker
from .packing import pack, unpack
from .rewards import terminal_reward
from .settings import Settings
from .task_format import TerminalTask
from .tasks import task_source

_MOST_STEPS = 1_000
_MOST_READ_BYTES = 64 * 1024
_REPLACED = "All files are as they were at the start."


class TerminalEnvironment(TaskListing, Environment[TerminalAction, TerminalObservation, TerminalState]):
    """Do a job in the shell of a sandbox. The reward, at the end, is the share of its checks that hold.

    The episode ends when the job is submitted, or after its last step. Where what has to stay as it is does not, all is
    lost.

    Args:
        tasks: A file of tasks, see ``TerminalTaskFile``; by default the one that ``TERMINAL_TASKS`` names, else they
            are made by chance.
        sandbox: ``auto``, ``bubblewrap`` or ``none``; by default what ``TERMINAL_SANDBOX`` says, else ``auto``.

    Raises:
        SandboxUnavailableError: There is no sandbox on this machine, or no git, and how to get it.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    DEFAULT_MAX_SESSIONS: ClassVar[int] = 32
    REQUIRES_RESET: ClassVar[bool] = True
    # What a task's checks name: see Checker.
    GRADED_FROM: ClassVar[tuple[str, ...]] = (
        *("answer.txt", "busiest.txt", "missing.txt", "*.csv", "report.py"),
        *("config/*", "inbox/*", "sorted/*", "scans/*", "project/.git/*"),
    )

    def __init__(self, tasks: str | Path | None = None, sandbox: Kind | None = None) -> None:
        super().__init__(rubric=terminal_reward())
        settings = Settings.from_variables()
        self._tasks = task_source(tasks or settings.tasks)
        self._pool = shared_pool(sandbox or settings.sandbox)
        self._pool.warm()
        self._sandbox: Sandbox | None = None
        self._task: TerminalTask | None = None
        self._asked: dict[str, str | None] = {}
        self._state = TerminalState()
        self._text = ""

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        split: str | None = None,
        index: int | None = None,
        family: Family | None = None,
        difficulty: Difficulty | None = None,
        max_steps: Annotated[int, Field(ge=1, le=_MOST_STEPS)] = MAX_STEPS,
    ) -> TerminalObservation:
        """Lay out a task in a new sandbox.

        Args:
            seed: Chooses the task where no index does: the same seed, the same task; ``None`` gives any.
            episode_id: Name of the episode; a new one is made up where there is none.
            split: ``train``, which is the default, ``validation`` or ``test``; those of the file where there is one.
            index: The task's index in its split.
            family: ``config``, ``files``, ``logs``, ``repository``, ``script`` or ``tables``; left to the task where it
                is ``None``.
            difficulty: ``easy``, ``medium`` or ``hard``; left to the task where it is ``None``.
            max_steps: Actions that may be done.

        Returns:
            The task.

        Raises:
            TaskNotFoundError: There is no such task. The running episode continues.
            InvalidRequestError: The tasks come from a file, which has no families and difficulties.
            ConfigurationError: The task's files can't be made as it says.
        """
        place = self._tasks.choose_task(split, index, seed)
        task = self._tasks.make(place, family, difficulty)
        self.close()
        self._sandbox = self._pool.take()
        _lay_out(self._sandbox, task)
        self._task, self._asked = task, {"family": family, "difficulty": difficulty}
        self._state = TerminalState(
            episode_id=episode_id or str(uuid4()),
            split=place.split,
            index=place.index,
            family=task.family,
            difficulty=task.difficulty,
            prompt=task.prompt,
            steps_left=max_steps,
        )
        return self._observation(f"{task.prompt}\n\nSubmit when it is done. Steps left: {max_steps}.")

    def step(self, action: RunAction | WriteFileAction | ReadFileAction | SubmitAction) -> TerminalObservation:
        """Do something in the sandbox, or submit.

        Args:
            action: Which of these.

        Returns:
            What it gave. A command that fails, or a file that can't be used, is no error of the step.

        Raises:
            IllegalActionError: A path or a command has a character that none can have. It is not counted.
            ResetNeededError: There is no episode, or it is over.
        """
        sandbox, task = self._sandbox, self._task
        if sandbox is None or task is None:
            raise ResetNeededError("There is no running episode; call reset first.")
        _check_text(action)
        left = self._state.steps_left - 1
        done = self._act(sandbox, task, action)
        self._state.steps_left = left
        self._state.step_count += 1
        if isinstance(action, SubmitAction) or left == 0:
            return self._over(sandbox, task, action, done)
        text = f"{_in_words(done)}\nSteps left: {left}." if left <= 5 else _in_words(done)
        return self._observation(text, **done)

    @property
    def state(self) -> TerminalState:
        """Task that is played, and state of the sandbox."""
        return self._state

    def render(self) -> str:
        """Return the task, or what the last action gave, as text."""
        return self._text

    def close(self) -> None:
        """End the sandbox."""
        sandbox, self._sandbox, self._task = self._sandbox, None, None
        if sandbox is not None:
            sandbox.close()

    def snapshot(self) -> dict[str, Any]:
        """Return what the episode has become: the files of the work folder, and the shell's folder and variables.

        Raises:
            SandboxError: That is more than 8 MiB.
        """
        return {
            "state": self._state.model_dump(mode="json"),
            "asked": self._asked,
            "text": self._text,
            "sandbox": None if self._sandbox is None else pack(self._sandbox),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from a snapshot, in another sandbox.

        Raises:
            SandboxError: That does not succeed.
        """
        state = TerminalState.model_validate(snapshot["state"])
        if snapshot["sandbox"] is not None and state.split is not None and state.index is not None:
            self._task = self._tasks.make(TaskRef(state.split, state.index), **snapshot["asked"])
            self._sandbox = self._pool.take()
            unpack(self._sandbox, snapshot["sandbox"])
        self._state, self._asked, self._text = state, snapshot["asked"], snapshot["text"]

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        """Refuse: a sandbox can't be copied.

        Raises:
            TypeError: Always.
        """
        raise TypeError("A sandbox can't be copied; snapshot() and restore() make another one that goes on alike.")

    @property
    def task_counts(self) -> Mapping[str, int | None]:
        """Number of tasks of each split."""
        return self._tasks.task_counts

    def _act(self, sandbox: Sandbox, task: TerminalTask, action: TerminalAction) -> dict[str, Any]:
        if isinstance(action, RunAction):
            done = sandbox.shell(action.command)
            if done.files_lost:
                _lay_out(sandbox, task)
            return _of_command(done)
        if isinstance(action, SubmitAction):
            return {}
        try:
            if isinstance(action, ReadFileAction):
                return _of_file(sandbox.read_file(action.path))
            sandbox.write_file(action.path, action.text)
        except SandboxFileError as error:
            return {"error": str(error)}
        return {"output": f"{len(action.text)} characters written to {action.path}"}

    def _over(
        self, sandbox: Sandbox, task: TerminalTask, action: TerminalAction, done: dict[str, Any]
    ) -> TerminalObservation:
        """Check what was done, and end the episode."""
        checker = Checker(sandbox, self._pool)
        results = _without_destruction(task, {check.name: checker.passes(check) for check in task.checks})
        lost = [check.name for check in task.checks if check.required and not results[check.name]]
        told = {check.name: results[check.name] for check in task.checks if not check.required or check.name in lost}
        self.close()
        lines = [_in_words(done)] if done else []
        lines += [f"{'right' if right else 'wrong'}: {name}" for name, right in told.items()]
        observation = self._observation("", **done, checks=told, lost=lost, done=True)
        observation.reward = self._apply_rubric(action, observation)
        observation.text = self._text = "\n".join([*lines, f"The episode is over. Reward: {observation.reward:.2f}."])
        return observation

    def _observation(self, text: str, **fields: Any) -> TerminalObservation:
        self._text = text
        return TerminalObservation(
            prompt=self._state.prompt or "", steps_left=self._state.steps_left, text=text, **fields
        )


def _lay_out(sandbox: Sandbox, task: TerminalTask) -> None:
    """Make a task's files."""
    try:
        for path, text in task.files.items():
            sandbox.write_file(path, text)
    except SandboxFileError as error:
        raise ConfigurationError(f"The task's files can't be made: {error}") from error
    if task.setup:
        done = sandbox.run(["bash", "-c", task.setup])
        if done.exit_code != 0:
            raise ConfigurationError(
                f"The task's setup failed with exit code {done.exit_code}: {done.stderr.strip() or done.stopped:.500}"
            )


def _without_destruction(task: TerminalTask, results: dict[str, bool]) -> dict[str, bool]:
    """Return the results where what deleting everything satisfies holds only if all else holds too."""
    rest_holds = all(results[check.name] for check in task.checks if not check.holds_for_nothing)
    return {check.name: results[check.name] and (rest_holds or not check.holds_for_nothing) for check in task.checks}


def _check_text(action: TerminalAction) -> None:
    given = [action.command] if isinstance(action, RunAction) else []
    given += [action.path] if isinstance(action, ReadFileAction | WriteFileAction) else []
    if any("\0" in text for text in given):
        raise IllegalActionError("Expected a command or a path without the character NUL, which none can have.")


def _of_command(done: Execution) -> dict[str, Any]:
    error = done.stderr
    for sentence in (done.stopped, _REPLACED if done.files_lost else ""):
        error += f"{sentence}\n" if sentence else ""
    return {"output": done.stdout, "error": error, "exit_code": done.exit_code, "truncated": done.truncated}


def _of_file(data: bytes) -> dict[str, Any]:
    text = data[:_MOST_READ_BYTES].decode(errors="replace")
    return {"output": text, "truncated": len(data) > _MOST_READ_BYTES}


def _in_words(done: dict[str, Any]) -> str:
    parts = [done.get("output", "").rstrip("\n"), done.get("error", "").rstrip("\n")]
    if done.get("truncated"):
        parts.append("(There was more, which is left out.)")
    code = done.get("exit_code")
    if code:
        parts.append(f"(exit code {code})")
    return "\n".join(part for part in parts if part) or "(no output)"


assert MAX_TEXT > _MOST_READ_BYTES  # so that what was read can be written back
