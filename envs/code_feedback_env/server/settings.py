"""Settings of the tasks and the sandbox, from the server's variables."""

from pathlib import Path
from typing import ClassVar

from openenv.core.sandbox import Kind
from openenv.core.variables import VariableSettings


class Settings(VariableSettings):
    """The server's settings.

    Attributes:
        tasks: A file of tasks; ``None`` for tasks made by chance.
        sandbox: What keeps code in.
    """

    PREFIX: ClassVar[str] = "CODE_FEEDBACK_"

    tasks: Path | None = None
    sandbox: Kind = "auto"
