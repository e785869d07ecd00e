"""The settings of a server, which environment variables give."""

import shutil
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from openenv.core.exceptions import ConfigurationError, InvalidRequestError
from openenv.core.variables import VariableSettings

from .miniwob_tasks import task_named

DEFAULT_TASK = "click-button"

_COMMANDS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
_MOST = 1_000_000


class Settings(VariableSettings):
    """Settings of a server: its tasks and its browser.

    Attributes:
        benchmark: The set of tasks; others need web sites that this environment does not bring.
        task_name: The task of a reset that names none.
        screenshot: Whether observations have a screenshot where a reset does not decide.
        viewport_width: Width of the window in pixels.
        viewport_height: Its height.
        timeout_ms: Time that an action or a reset may take, in milliseconds; the variable is ``BROWSERGYM_TIMEOUT``.
        headless: Whether the browser has no window that people see.
        executable: Path or command of the browser; ``None`` to look for one.
        sandbox: Whether the browser runs its pages in its own sandbox; ``None`` for yes, unless the user is root, for
            whom Chromium has none.
        port: Port of the server without the option ``--port``.
    """

    PREFIX: ClassVar[str] = "BROWSERGYM_"

    benchmark: Literal["miniwob"] = "miniwob"
    task_name: str = DEFAULT_TASK
    screenshot: bool = True
    viewport_width: int = Field(1280, ge=160, le=_MOST)
    viewport_height: int = Field(720, ge=210, le=_MOST)
    timeout_ms: int = Field(10_000, ge=100, le=_MOST)
    headless: bool = True
    executable: str | None = None
    sandbox: bool | None = None
    port: int = Field(8000, ge=0, le=65535)

    @field_validator("task_name")
    @classmethod
    def _check_task(cls, name: str) -> str:
        try:
            task_named(name)
        except InvalidRequestError as error:
            raise ValueError(str(error)) from error
        return name

    @classmethod
    def variable(cls, field: str) -> str:
        """Return the name of a field's variable."""
        return super().variable(field.removesuffix("_ms"))


def find_chromium(executable: str | None) -> Path | None:
    """Find a Chromium that is installed.

    Args:
        executable: Path or command of the one to use; ``None`` for any.

    Returns:
        Its path, or ``None`` where none is found: then there is only the one that ``playwright install`` may have
        installed.

    Raises:
        ConfigurationError: The given one is not there.
    """
    commands = _COMMANDS if executable is None else (executable,)
    found = next((path for command in commands if (path := shutil.which(command))), None)
    if executable is not None and found is None:
        raise ConfigurationError(
            f"BROWSERGYM_EXECUTABLE is {executable!r}, which is no program; expected the path of a Chromium."
        )
    return None if found is None else Path(found)
