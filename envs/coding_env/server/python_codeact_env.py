"""The coding environment: an interpreter in a sandbox for each episode."""

from typing import Annotated, Any, ClassVar
from uuid import uuid4

from pydantic import Field

from openenv.core.env_server.interfaces import Environment
from openenv.core.exceptions import ResetNeededError
from openenv.core.sandbox import Execution, Sandbox

from ..models import CodeAction, CodeObservation, CodeState
from .rewards import UNCOMPILED, CodingReward, dangerous_pattern
from .settings import Settings


class PythonCodeActEnv(Environment[CodeAction, CodeObservation, CodeState]):
    """Run Python, step after step in one interpreter. Rewards are for code that is short, compiles, and looks harmless.

    Each episode has a sandbox of its own, which no code has used before.

    Args:
        how: How code is run; what the server's variables say, if ``None``.

    Raises:
        ConfigurationError: A setting can't be.
        SandboxUnavailableError: There is no sandbox on this machine, and how to get one.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    DEFAULT_MAX_SESSIONS: ClassVar[int] = 16
    REQUIRES_RESET: ClassVar[bool] = True
    GRADED_FROM: ClassVar[tuple[str, ...]] = ("code",)

    def __init__(self, how: Settings | None = None) -> None:
        super().__init__(rubric=CodingReward())
        self._pool = (how or Settings.from_variables()).pool()
        self._pool.warm()
        self._sandbox: Sandbox | None = None
        self._state = CodeState()
        self._max_steps: int | None = None
        self._shown = ""

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        max_steps: Annotated[int, Field(ge=1)] | None = None,
    ) -> CodeObservation:
        """Start an episode with a fresh interpreter and an empty disk.

        Args:
            seed: Seeds the interpreter's ``random``; ``None`` leaves it to chance.
            episode_id: Name of the episode; a new one is made up where there is none.
            max_steps: Steps after which the episode is over; ``None`` for no end.

        Returns:
            An observation of nothing.
        """
        self.close()
        self._sandbox = self._pool.take()
        if seed is not None:
            self._sandbox.python(f"import random; random.seed({seed}); del random")
        self._state = CodeState(episode_id=episode_id or str(uuid4()), step_count=0)
        self._max_steps = max_steps
        self._shown = ""
        return CodeObservation(done=False, reward=0.0)

    def step(self, action: CodeAction) -> CodeObservation:
        """Run a piece of code.

        Args:
            action: The code.

        Returns:
            What it gave. Its metadata holds the code (``last_code``), the dangerous pattern in it if there is one
            (``safety_violation``), and, where so, ``uncompiled``, ``timed_out``, ``truncated`` and
            ``interpreter_lost``.

        Raises:
            ResetNeededError: There is no episode, or it is over.
        """
        sandbox = self._sandbox
        if sandbox is None or self._state.step_count == self._max_steps:
            raise ResetNeededError("There is no running episode to run code in; call reset first.")
        is_compiled = sandbox.compiles(action.code)  # by a process that earlier code could not change
        execution = sandbox.python(action.code, echo=True)
        self._state.step_count += 1
        self._state.last_exit_code = execution.exit_code
        observation = self._observation(action.code, execution, is_compiled=is_compiled)
        self._shown = _transcript(action.code, observation)
        observation.reward = self._apply_rubric(action, observation)
        return observation

    @property
    def state(self) -> CodeState:
        """State of the episode."""
        return self._state

    def render(self) -> str:
        """Return the last code and what it gave."""
        return self._shown

    def close(self) -> None:
        """End the sandbox."""
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def _observation(self, code: str, execution: Execution, *, is_compiled: bool) -> CodeObservation:
        return CodeObservation(
            stdout=execution.stdout,
            stderr=_with_notes(execution, self._pool.limits.output_bytes),
            exit_code=execution.exit_code,
            done=self._state.step_count == self._max_steps,
            metadata=_metadata(code, execution) | ({} if is_compiled else {UNCOMPILED: True}),
        )


def _metadata(code: str, execution: Execution) -> dict[str, Any]:
    told = ("timed_out", "truncated", "interpreter_lost", "files_lost")
    violation = dangerous_pattern(code)
    return {
        "last_code": code,
        **({} if violation is None else {"safety_violation": violation}),
        **{name: True for name in told if getattr(execution, name)},
    }


def _with_notes(execution: Execution, output_bytes: int) -> str:
    """Return what the code wrote, and what happened to it: a model reads nothing else."""
    notes = [execution.stopped] if execution.stopped else []
    if execution.truncated:
        notes.append(f"Output was cut after {output_bytes} bytes.")
    written = execution.stderr
    if notes and written and not written.endswith("\n"):
        written += "\n"
    return written + "".join(f"[sandbox] {note}\n" for note in notes)


def _transcript(code: str, observation: CodeObservation) -> str:
    prompt = "\n".join(f"{'... ' if number else '>>> '}{line}" for number, line in enumerate(code.splitlines()))
    return f"{prompt}\n{observation.stdout}{observation.stderr}".rstrip()
