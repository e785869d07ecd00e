"""Actions and observations of an agent in the terminal."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State

Family = Literal["config", "files", "logs", "repository", "script", "tables"]
Difficulty = Literal["easy", "medium", "hard"]
FAMILIES: tuple[Family, ...] = get_args(Family)
DIFFICULTIES: tuple[Difficulty, ...] = get_args(Difficulty)
MAX_STEPS = 30
MAX_TEXT = 100_000

Path = Annotated[str, Field(min_length=1, max_length=1_000)]


class RunAction(Action):
    """Run a command in the shell, which keeps its folder and its exported variables from one command to the next.

    Attributes:
        type: Tells this action from the others.
        command: In the language of bash.
    """

    type: Literal["run"] = "run"
    command: str = Field(min_length=1, max_length=MAX_TEXT, description="A command in the language of bash")


class WriteFileAction(Action):
    """Write a text file, and make the folders above it. Links are not followed.

    Attributes:
        type: Tells this action from the others.
        path: From the work folder on, wherever the shell is.
        text: What the file is to hold.
    """

    type: Literal["write_file"] = "write_file"
    path: Path = Field(description="Path from the work folder on, such as notes/a.txt")
    text: str = Field(max_length=MAX_TEXT, description="What the file is to hold")


class ReadFileAction(Action):
    """Read a text file. Links are not followed.

    Attributes:
        type: Tells this action from the others.
        path: From the work folder on, wherever the shell is.
    """

    type: Literal["read_file"] = "read_file"
    path: Path = Field(description="Path from the work folder on, such as notes/a.txt")


class SubmitAction(Action):
    """Say that the task is done. It is checked, and the episode ends.

    Attributes:
        type: Tells this action from the others.
    """

    type: Literal["submit"] = "submit"


TerminalAction = Annotated[RunAction | WriteFileAction | ReadFileAction | SubmitAction, Field(discriminator="type")]
"""Any of the four."""


class TerminalObservation(Observation):
    """The task, or what an action gave.

    Attributes:
        prompt: The task.
        output: What a command wrote to its standard output, or what a file holds.
        error: What a command wrote to its standard error, or why a file can't be used.
        exit_code: Of a command, 0 for success; ``None`` for all else.
        truncated: Whether something was left out of ``output`` or ``error``.
        steps_left: Actions that may still be done; after the last one the task is checked.
        checks: Once the episode is over, what was checked, and whether it was right.
        lost: Those of the checks that failed for what had to stay as it was.
        text: The same in words, for a language model.
    """

    prompt: str = ""
    output: str = ""
    error: str = ""
    exit_code: int | None = None
    truncated: bool = False
    steps_left: int = Field(default=0, ge=0)
    checks: dict[str, bool] = Field(default_factory=dict)
    lost: list[str] = Field(default_factory=list)
    text: str = ""


class TerminalState(State):
    """Which task is played, and where it stands. What is checked is not in it.

    Attributes:
        split: The split that the task is of.
        index: The task's index in its split.
        family: Of what kind the task is; ``None`` where nobody said.
        difficulty: How hard it is meant to be; ``None`` where nobody said.
        prompt: The task.
        steps_left: Actions that may still be done.
    """

    split: str | None = None
    index: int | None = None
    family: str | None = None
    difficulty: str | None = None
    prompt: str | None = None
    steps_left: int = 0
