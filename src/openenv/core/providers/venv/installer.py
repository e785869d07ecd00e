"""Run uv or pip, whichever there is, on a Python environment."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import distributions
from pathlib import Path

from openenv.core.providers.base import LOG_END
from openenv.core.exceptions import ProviderError

NO_PUBLIC_PACKAGE = "openenv ; python_version < '0'"
"""Overrides for uv what requires the public distribution, whose modules would lie over ours: no Python is as old."""

# Of those that uv and pip read: these would have them work on another environment.
_ELSEWHERE = frozenset({"VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX", "PIP_USER"})
_QUIET = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_PROGRESS_BAR": "off", "UV_NO_PROGRESS": "1"}


def find_uv() -> str | None:
    """Return uv's command, on the search path or beside this Python; ``None`` where there is none."""
    return shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


def has_pip() -> bool:
    """Whether this Python has pip."""
    # Not find_spec: setuptools listens to it, and warns.
    return next(iter(distributions(name="pip")), None) is not None


def write_lines(file: Path, lines: Iterable[str]) -> str:
    """Write a list of requirements, and return its path as an argument."""
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(file)


def run_installer(command: Sequence[str], what: str, *, cwd: Path | None = None, held: Sequence[int] = ()) -> None:
    """Run a command of uv or pip to its end.

    Args:
        command: The command.
        what: What it makes, for the message of its error.
        cwd: Folder that it runs in.
        held: Numbers of open files that it inherits.

    Raises:
        ProviderError: It failed; the message has the end of what it said.
    """
    done = subprocess.run(  # noqa: S603  # our own commands; what they install is the caller's choice
        command,
        check=False,
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name not in _ELSEWHERE} | _QUIET,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        pass_fds=held,
    )
    if done.returncode != 0:
        raise ProviderError(
            f"{what} failed: {Path(command[0]).name} ended with exit status {done.returncode}.", done.stdout[-LOG_END:]
        )
