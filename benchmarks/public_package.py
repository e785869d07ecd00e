"""The public ``openenv`` package in a virtual environment of its own, made once and kept under ``.cache``."""

import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "0.10.0"
ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".cache" / f"openenv-{VERSION}"
PYTHON = FOLDER / "bin" / "python"
COMMAND = f"python -m venv {FOLDER.relative_to(ROOT)} && {PYTHON.relative_to(ROOT)} -m pip install openenv=={VERSION}"
"""What brings the package, for messages that say that it is missing."""

# Written last, so that an installation that was cut short is made anew.
_COMPLETE = FOLDER / ".complete"


class PublicPackageError(RuntimeError):
    """The public package could not be installed."""


def public_python() -> Path:
    """Return the interpreter that has the public package, installing it on the first call.

    Raises:
        PublicPackageError: The installation failed; the message has pip's last lines.
    """
    if not _COMPLETE.exists():
        shutil.rmtree(FOLDER, ignore_errors=True)
        _run(sys.executable, "-m", "venv", str(FOLDER))
        _run(str(PYTHON), "-m", "pip", "install", "--quiet", f"openenv=={VERSION}")
        _COMPLETE.touch()
    return PYTHON


def _run(*command: str) -> None:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        last_lines = "\n".join((finished.stdout + finished.stderr).splitlines()[-5:])
        raise PublicPackageError(f"openenv=={VERSION} could not be installed by `{COMMAND}`:\n{last_lines}")
