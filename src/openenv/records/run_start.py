"""Start of a run: its time, its command, and the versions of its libraries."""

import platform
import shlex
import sys
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

__all__ = ["RunStart"]

PACKAGES = {"openenv": "openenv-core", "trl": "trl", "torch": "torch", "transformers": "transformers"}


@dataclass(frozen=True)
class RunStart:
    """Start of a run, the first or one after an interruption.

    Attributes:
        time: Time of the start, in local time with its offset, to the second.
        command: The command line of the process.
        versions: The versions of what decides the results of a run, by name.
    """

    time: str
    command: str
    versions: dict[str, str]

    @classmethod
    def now(cls) -> Self:
        """Describe this process, now."""
        return cls(datetime.now().astimezone().isoformat(timespec="seconds"), _command(), _versions())

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


def _command() -> str:
    program = Path(sys.argv[0])
    if program.suffix == ".py" or sys.argv[0].startswith("-"):
        interpreter, *rest = sys.orig_argv
        return shlex.join([Path(interpreter).name, *rest])
    return shlex.join([program.name, *sys.argv[1:]])


def _versions() -> dict[str, str]:
    found = {name: _version(package) for name, package in PACKAGES.items()}
    return {**{name: number for name, number in found.items() if number}, "python": platform.python_version()}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
