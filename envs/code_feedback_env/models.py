"""Actions and observations of the code feedback environment."""

from typing import Literal, get_args

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State

Difficulty = Literal["easy", "medium", "hard"]
DIFFICULTIES: tuple[Difficulty, ...] = get_args(Difficulty)
MAX_ATTEMPTS = 5


class CodeAction(Action):
    """Hand in code.

    Attributes:
        code: Python that defines the function; it may define and import whatever else it needs.
        function_name: Name of the function.
    """

    code: str = Field(max_length=100_000, description="Python code that defines the function")
    function_name: str = Field(min_length=1, max_length=100, description="Name of the function, as the task gives it")


class CodeObservation(Observation):
    """What became of the code; after a reset, the task.

    Attributes:
        status: ``ok``: the code defines the function. ``error``: it does not. ``timeout``: it does, or might, but it or
            a call took too long.
        output: What was found out, with what the code printed in the shown tests.
        error: Why the code can't be used; ``None`` if it can.
        execution_time_ms: Milliseconds that the shown tests took together.
        prompt: The task; empty where there is none.
        function_name: Name of the function that the task asks for.
        passed: How many tests passed, shown and hidden ones.
        gained: How many more passed than in the best attempt before; 0 for fewer.
        total: How many there are.
        attempts_left: How often code may still be handed in; ``None`` for no limit.
        text: All of it in words, for a language model.
    """

    status: Literal["ok", "error", "timeout"]
    output: str | None = None
    error: str | None = None
    execution_time_ms: float | None = None
    prompt: str = ""
    function_name: str | None = None
    passed: int | None = None
    gained: int | None = None
    total: int | None = None
    attempts_left: int | None = None
    text: str = ""


class CodeFeedbackState(State):
    """Which task is played, and where it stands. The tests are not in it.

    Attributes:
        split: The split that the task is of; ``None`` without a task.
        index: The task's index in its split.
        difficulty: How hard it was asked to be; ``None`` where that was left to the task.
        function_name: Name of the function that the task asks for.
        attempts_left: How often code may still be handed in; ``None`` for no limit.
        best: The largest number of tests that passed in an attempt.
        total: How many tests there are.
    """

    split: str | None = None
    index: int | None = None
    difficulty: str | None = None
    function_name: str | None = None
    attempts_left: int | None = None
    best: int = 0
    total: int = 0
