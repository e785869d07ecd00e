"""The public ``openenv`` package in a virtual environment of its own, made once and kept under ``.cache``.

``python -m benchmarks.public_package`` makes it, which takes minutes on a slow machine; the tests of playing together
want it, and the measurements.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

VERSION = "0.10.0"
ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".cache" / f"openenv-{VERSION}"
PYTHON = FOLDER / "bin" / "python"
COMMAND = f"python -m venv {FOLDER.relative_to(ROOT)} && {PYTHON.relative_to(ROOT)} -m pip install openenv=={VERSION}"
"""What brings the package, for messages that say that it is missing."""


class PublicPackageError(RuntimeError):
    """The public package could not be installed."""


def public_python() -> Path:
    """Return the interpreter that has the public package, installing it on the first call.

    Raises:
        PublicPackageError: The installation failed; the message has pip's last lines and the command.
    """
    install(FOLDER, f"openenv=={VERSION}")
    return PYTHON


def install(folder: Path, requirement: str) -> None:
    """Make a virtual environment that has a package, unless it is there and complete.

    Args:
        folder: Where it is made; what an earlier, unfinished call left there is removed.
        requirement: What to install, as pip takes it.

    Raises:
        PublicPackageError: The installation failed.
    """
    complete = folder / ".complete"  # written last
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):  # several processes of tests may want it at once
        if complete.exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
        _run(sys.executable, "-m", "venv", str(folder))
        _run(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", requirement)
        complete.touch()


def _run(*command: str) -> None:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        last_lines = "\n".join((finished.stdout + finished.stderr).splitlines()[-5:])
        raise PublicPackageError(f"`{' '.join(command)}` failed:\n{last_lines}")


if __name__ == "__main__":
    try:
        public_python()
    except PublicPackageError as error:
        sys.exit(str(error))
