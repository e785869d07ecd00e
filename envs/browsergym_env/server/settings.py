"""The settings of a server, which environment variables give."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from openenv.core.exceptions import ConfigurationError, InvalidRequestError

from .miniwob_tasks import BENCHMARK, task_named

DEFAULT_TASK = "click-button"

_COMMANDS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True)
class Settings:
    """What a server shows, and in which browser.

    Attributes:
        task_name: The task of a reset that names none.
        screenshot: Whether observations have a screenshot where a reset does not say.
        viewport_width: Width of the window in pixels.
        viewport_height: Its height.
        timeout_ms: How long one action or reset may take, in milliseconds.
        headless: Whether the browser has no window that people see.
        executable: Path or command of the browser; ``None`` to look for one.
        sandbox: Whether the browser runs its pages in its own sandbox; ``None`` for yes, unless the user is root, for
            whom Chromium has none.

    Raises:
        ConfigurationError: The task does not exist, or a number is out of range.
    """

    task_name: str = DEFAULT_TASK
    screenshot: bool = True
    viewport_width: int = 1280
    viewport_height: int = 720
    timeout_ms: int = 10_000
    headless: bool = True
    executable: str | None = None
    sandbox: bool | None = None

    def __post_init__(self) -> None:
        try:
            task_named(self.task_name)
        except InvalidRequestError as error:
            raise ConfigurationError(f"BROWSERGYM_TASK_NAME: {error}") from error
        for name, least in (("viewport_width", 160), ("viewport_height", 210), ("timeout_ms", 100)):
            if not least <= getattr(self, name) <= 1_000_000:
                raise ConfigurationError(
                    f"BROWSERGYM_{name.removesuffix('_ms').upper()} is {getattr(self, name)}; expected {least} or more."
                )

    @classmethod
    def from_variables(cls, variables: Mapping[str, str]) -> "Settings":
        """Read the settings from environment variables; one that is not there leaves the default.

        Args:
            variables: Those whose names begin with ``BROWSERGYM_`` are read, as the README lists them.

        Raises:
            ConfigurationError: A variable has a value that is not allowed.
        """
        given = {name: value for name, value in variables.items() if name.startswith("BROWSERGYM_") and value}
        benchmark = given.get("BROWSERGYM_BENCHMARK", BENCHMARK)
        if benchmark != BENCHMARK:
            raise ConfigurationError(
                f"BROWSERGYM_BENCHMARK is {benchmark!r}; expected {BENCHMARK!r}: other benchmarks need web sites that "
                "this environment does not bring."
            )
        return cls(
            task_name=given.get("BROWSERGYM_TASK_NAME", cls.task_name),
            screenshot=_flag(given, "BROWSERGYM_SCREENSHOT", cls.screenshot),
            viewport_width=_number(given, "BROWSERGYM_VIEWPORT_WIDTH", cls.viewport_width),
            viewport_height=_number(given, "BROWSERGYM_VIEWPORT_HEIGHT", cls.viewport_height),
            timeout_ms=_number(given, "BROWSERGYM_TIMEOUT", cls.timeout_ms),
            headless=_flag(given, "BROWSERGYM_HEADLESS", cls.headless),
            executable=given.get("BROWSERGYM_EXECUTABLE"),
            sandbox=_flag(given, "BROWSERGYM_SANDBOX", os.geteuid() != 0),
        )


def find_chromium(executable: str | None) -> Path | None:
    """Find a Chromium that is installed.

    Args:
        executable: Path or command of the one to use; ``None`` for any.

    Returns:
        Its path, or ``None`` where none is found: then there is only what ``playwright install`` may have brought.

    Raises:
        ConfigurationError: The one that was asked for is not there.
    """
    commands = _COMMANDS if executable is None else (executable,)
    found = next((path for command in commands if (path := shutil.which(command))), None)
    if executable is not None and found is None:
        raise ConfigurationError(
            f"BROWSERGYM_EXECUTABLE is {executable!r}, which is no program; expected the path of a Chromium."
        )
    return None if found is None else Path(found)


def _flag(given: Mapping[str, str], name: str, default: bool | None) -> bool:
    value = given.get(name, "").lower()
    if not value:
        return bool(default)
    if value not in _YES + _NO:
        raise ConfigurationError(f"{name} is {given[name]!r}; expected 1 or 0.")
    return value in _YES


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    value = given.get(name, str(default))
    if not value.isdecimal() or not value.isascii():
        raise ConfigurationError(f"{name} is {value!r}; expected a whole number such as {default}.")
    return int(value[:10])
