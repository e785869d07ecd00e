"""Files of an image: a copy of the environment's folder, with what else the build needs."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from openenv.core.exceptions import ConfigurationError
from openenv.core.providers.venv.wheel import pack_openenv
from openenv.images.dockerfile import Dockerfile

WHEELS = "wheels"
LOCK_FILE = "requirements.lock"
_LEFT_OUT = (
    ".git",
    ".env",
    ".venv",
    "__pycache__",
    "*.pyc",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "*.egg-info",
)


@contextmanager
def build_context(
    folder: Path, dockerfile: Dockerfile, *, wheels: Path | None = None, without_lock: bool = False
) -> Iterator[Path]:
    """Make a temporary copy of a folder to build from; nothing is written into the folder itself.

    Raises:
        ConfigurationError: There are wheels to use, but the Dockerfile does not look for them.
        ProviderError: OpenEnv runs from a folder that was not installed.
    """
    if wheels is not None and not dockerfile.mentions(WHEELS):
        raise ConfigurationError(
            f"{dockerfile.path} does not look for {WHEELS}/, so the wheels of {wheels} would not be used. "
            f"Copy the folder in it, and add `--find-links {WHEELS}` to its pip install."
        )
    with TemporaryDirectory(prefix="openenv-build-") as temporary:
        context = Path(temporary) / "context"
        left_out = (*_LEFT_OUT, LOCK_FILE) if without_lock else _LEFT_OUT
        shutil.copytree(folder, context, ignore=shutil.ignore_patterns(*left_out), symlinks=True)
        if dockerfile.mentions(WHEELS):
            _add_wheels(context / WHEELS, wheels)
        yield context


def _add_wheels(target: Path, wheels: Path | None) -> None:
    if wheels is not None:
        shutil.copytree(wheels, target, dirs_exist_ok=True, ignore=lambda _, names: _no_wheels(names))
    pack_openenv(target)


def _no_wheels(names: list[str]) -> set[str]:
    return {name for name in names if not name.endswith(".whl")}
