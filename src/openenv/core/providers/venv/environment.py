"""Python environments of environments' folders: each folder's own dependencies beside the OpenEnv that runs here.

An environment is built once for what its folder asks for, and used from then on, whoever else asks for the same. It
lies in ``~/.cache/openenv/venvs`` (or below ``XDG_CACHE_HOME``), where it may be removed whenever no server runs in it.
"""

import fcntl
import hashlib
import logging
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from openenv.core.providers.cache import cache_folder
from openenv.core.providers.venv.installer import NO_PUBLIC_PACKAGE, find_uv, has_pip, run_installer, write_lines
from openenv.core.providers.venv.wheel import DISTRIBUTION, fingerprint, pack_openenv, provided_extras
from openenv.core.providers.venv.requirements import PROJECT_FILE, Requirements, read_requirements
from openenv.core.exceptions import ConfigurationError, ProviderError

logger = logging.getLogger(__name__)

READY_FILE = "openenv-ready"
"""Stands in an environment that is complete; one without it is what a builder that was killed has left."""

_KEY_LENGTH = 16


def environment_for(folder: Path) -> Path:
    """Return the Python environment of a folder, building it first where there is none yet.

    uv builds it where it is installed, else pip does. Builders of the same environment, in whichever process, wait for
    each other; one that fails leaves nothing behind.

    Args:
        folder: An environment's folder, with a ``pyproject.toml`` or ``requirements.txt``.

    Returns:
        The environment's folder; ``bin/python`` in it runs what the folder needs.

    Raises:
        ConfigurationError: The folder does not say what it needs, or needs another Python than this one.
        ProviderError: The environment can't be built; the message has the end of what uv or pip said.
    """
    folder = folder.expanduser().resolve()
    if not folder.is_dir():
        raise ConfigurationError(f"A Python environment is made for an environment's folder, and {folder} is none.")
    requirements = read_requirements(folder)
    _check_python(requirements)
    place = cache_folder("venvs") / f"{folder.name}-{_key(requirements)}"
    if not (place / READY_FILE).exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with _locked(place.with_name(f"{place.name}.lock")) as lock:
            if not (place / READY_FILE).exists():
                _build(place, folder, requirements, lock)
    return place


def variables_of(venv: Path) -> dict[str, str]:
    """Return the environment variables of a program that runs in an environment."""
    return {"VIRTUAL_ENV": str(venv), "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


def _check_python(requirements: Requirements) -> None:
    try:
        fits = SpecifierSet(requirements.python).contains(platform.python_version(), prereleases=True)
    except InvalidSpecifier as error:
        raise ConfigurationError(f"{requirements.file}: requires-python is no version: {error}") from error
    if not fits:
        raise ConfigurationError(
            f"{requirements.file} asks for Python {requirements.python}, and this is {platform.python_version()}; "
            "run openenv with such a Python."
        )


def _key(requirements: Requirements) -> str:
    python = f"{sys.implementation.cache_tag} {platform.python_version()} {platform.machine()} {sys.base_prefix}"
    digest = hashlib.sha256(requirements.content)
    digest.update(f"\0{requirements.file.name}\0{python}\0{fingerprint()}".encode())
    return digest.hexdigest()[:_KEY_LENGTH]


@contextmanager
def _locked(file: Path) -> Iterator[int]:
    """Hold a lock, once nobody else does; gives its number, which processes that inherit it hold on to as well."""
    with file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("waiting for another process that builds %s", file.stem)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def _build(place: Path, folder: Path, requirements: Requirements, lock: int) -> None:
    logger.info("building the Python environment of %s in %s", folder, place)
    shutil.rmtree(place, ignore_errors=True)
    try:
        with TemporaryDirectory(prefix="openenv-build-") as scratch:
            for command in _commands(place, folder, requirements, Path(scratch)):
                # It inherits the lock: should this process be killed, nobody else builds before it has ended.
                run_installer(command, f"Building the Python environment of {folder}", cwd=folder, held=[lock])
        (place / READY_FILE).touch()
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def _commands(place: Path, folder: Path, requirements: Requirements, scratch: Path) -> list[list[str]]:
    extras = ",".join(sorted(requirements.extras & provided_extras()))
    ours = f"{DISTRIBUTION}[{extras}] @ {pack_openenv(scratch).as_uri()}"
    listed = write_lines(scratch / "requirements.txt", requirements.lines)
    pins = write_lines(scratch / "pins.txt", requirements.pins)
    python = str(place / "bin" / "python")
    uv = find_uv()
    if uv is not None:
        # A project's own file may have settings for uv. OpenEnv is overridden in it, and whoever else asks for it.
        read_by_uv = str(requirements.file) if requirements.file.name == PROJECT_FILE else listed
        overrides = write_lines(scratch / "overrides.txt", [ours, NO_PUBLIC_PACKAGE])
        return [
            [uv, "venv", "--no-project", "--python", sys.executable, str(place)],
            [uv, "pip", "install", "--python", python, "--override", overrides, "-r", read_by_uv, "-c", pins, ours],
        ]
    if not has_pip():
        raise ProviderError(f"The Python environment of {folder} is built by uv or pip, and neither is installed here.")
    return [
        # Without a pip of its own, which takes longer than all else.
        [sys.executable, "-m", "venv", "--without-pip", str(place)],
        [sys.executable, "-m", "pip", "--python", python, "install", "-r", listed, "-c", pins, ours],
    ]
