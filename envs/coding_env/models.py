"""Actions and observations of the interpreter."""

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State


class CodeAction(Action):
    """Run a piece of Python.

    Attributes:
        code: The code. Variables, functions and imports of the episode's earlier code are there.
    """

    code: str = Field(max_length=1_000_000, description="Python to run; what earlier code has defined is there")


class CodeObservation(Observation):
    """What the code gave.

    Attributes:
        stdout: What it printed, and the value of an expression at its end; empty after a reset.
        stderr: The traceback where it raised; then, where that happened, why it was ended or what was cut.
        exit_code: 0 for success, 1 where it raised, 124 where it took too long, 128 and a signal's number where it was
            killed.
    """

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0


class CodeState(State):
    """Where the episode stands.

    Attributes:
        last_exit_code: Of the last piece of code.
    """

    last_exit_code: int = 0
