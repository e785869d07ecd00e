"""Python environments of environments' folders: each folder's own dependencies beside the OpenEnv that runs here.

uv builds an environment once for what its folder requires; every program with the same requirements uses it from then on.
They lie in ``~/.cache/openenv/venvs`` (or below ``XDG_CACHE_HOME``). Only so many are kept, see ``KEPT_VARIABLE``: a
build removes those that were used least recently, but none that is in use.

Beside each environment lies its lock file. Who uses the environment holds a shared lock on it; to build or to remove
one takes an exclusive lock. The system releases locks when the processes that hold them end, however they end.
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
from types import TracebackType
from typing import BinaryIO, Self

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from openenv._extras import DISTRIBUTION
from openenv.core.exceptions import ConfigurationError, ProviderError
from openenv.core.providers.cache import cache_folder
from openenv.core.providers.venv.installer import NO_PUBLIC_PACKAGE, find_uv, run_installer, write_lines
from openenv.core.providers.venv.requirements import OURS, PROJECT_FILE, Requirements, read_requirements
from openenv.core.providers.venv.wheel import fingerprint, pack_for_venv, provided_extras

logger = logging.getLogger(__name__)

READY_FILE = "openenv-ready"
"""Stands in an environment that is complete, and was last changed when the environment was last used. An environment
without one is what a builder that was killed has left."""
KEPT_VARIABLE = "OPENENV_VENVS_KEPT"
"""How many environments are kept, those in use included; 20 by default."""

_KEPT = 20
_KEY_LENGTH = 16


class HeldEnvironment:
    """The Python environment of a folder, which is not removed while it is held.

    Args:
        path: The environment's folder; ``bin/python`` in it runs what the folder needs.
        lock: Its lock file, with a shared lock.
    """

    def __init__(self, path: Path, lock: BinaryIO) -> None:
        self.path = path
        self._lock = lock

    @property
    def descriptor(self) -> int:
        """A file descriptor; a process that inherits it holds the environment too, until that process ends."""
        return self._lock.fileno()

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of a program that runs in it."""
        path = f"{self.path / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {"VIRTUAL_ENV": str(self.path), "PATH": path}

    def close(self) -> None:
        """Hold it no longer."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def hold_environment(folder: Path) -> HeldEnvironment:
    """Return the Python environment of a folder, building it first where there is none yet.

    Builders of the same environment, in whichever process, wait for each other; a build that fails leaves nothing.

    Args:
        folder: An environment's folder, with a ``pyproject.toml`` or ``requirements.txt``.

    Returns:
        The environment; close it once no program runs there that was not given its descriptor.

    Raises:
        ConfigurationError: The folder does not say what it needs, or needs another Python than this one.
        ProviderError: uv is not installed, or can't build the environment; the message has the end of what uv said.
    """
    folder = folder.expanduser().resolve()
    if not folder.is_dir():
        raise ConfigurationError(f"A Python environment is made for an environment's folder, and {folder} is none.")
    requirements = read_requirements(folder)
    _check_python(requirements)
    kept = _kept()
    path = cache_folder("venvs") / f"{folder.name}-{_key(requirements)}"
    path.parent.mkdir(parents=True, exist_ok=True)
    held = _held(path)
    if held is None:
        while held is None:
            _build_if_missing(path, folder, requirements)
            held = _held(path)
        _remove_unused(path.parent, kept)
    return held


def _held(path: Path) -> HeldEnvironment | None:
    """Hold an environment; ``None`` where it has to be built first."""
    lock = _locked(path, fcntl.LOCK_SH)
    try:
        os.utime(path / READY_FILE)
    except OSError:
        lock.close()
        return None
    return HeldEnvironment(path, lock)


def _check_python(requirements: Requirements) -> None:
    try:
        fits = SpecifierSet(requirements.python).contains(platform.python_version(), prereleases=True)
    except InvalidSpecifier as error:
        raise ConfigurationError(f"{requirements.file}: requires-python is no version: {error}") from error
    if not fits:
        raise ConfigurationError(
            f"{requirements.file} requires Python {requirements.python}, and this is {platform.python_version()}; "
            "run openenv with such a Python."
        )


def _key(requirements: Requirements) -> str:
    python = f"{sys.implementation.cache_tag} {platform.python_version()} {platform.machine()} {sys.base_prefix}"
    digest = hashlib.sha256(requirements.content)
    digest.update(f"\0{requirements.file.name}\0{python}\0{fingerprint()}".encode())
    return digest.hexdigest()[:_KEY_LENGTH]


def _kept() -> int:
    text = os.environ.get(KEPT_VARIABLE) or str(_KEPT)
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise ConfigurationError(f"{KEPT_VARIABLE} is a number of Python environments, at least 1, but got {text!r}.")
    return int(text)


def _lock_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _locked(path: Path, kind: int) -> BinaryIO:
    """Wait for a lock on an environment; closing the file releases it."""
    file = _lock_file(path).open("ab")
    try:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("waiting for another process that builds %s", path.name)
            fcntl.flock(file, kind)
    except BaseException:
        file.close()
        raise
    return file


@contextmanager
def _locked_alone(path: Path) -> Iterator[bool]:
    """Lock an environment that is not in use; gives ``False`` where it is, or is being built."""
    with _lock_file(path).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _build_if_missing(path: Path, folder: Path, requirements: Requirements) -> None:
    with _locked(path, fcntl.LOCK_EX) as lock:
        if not (path / READY_FILE).exists():
            _build(path, folder, requirements, lock.fileno())


def _build(path: Path, folder: Path, requirements: Requirements, lock: int) -> None:
    uv = find_uv()
    if uv is None:
        raise ProviderError(f"The Python environment of {folder} is built by uv, which is not installed: pip install uv")
    logger.info("building the Python environment of %s in %s", folder, path)
    shutil.rmtree(path, ignore_errors=True)
    try:
        with TemporaryDirectory(prefix="openenv-build-") as scratch:
            for command in _commands(uv, path, requirements, Path(scratch)):
                # It inherits the lock: if this process is killed, no other builds before the command has ended.
                run_installer(command, f"Building the Python environment of {folder}", cwd=folder, held=[lock])
        (path / READY_FILE).touch()
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def _commands(uv: str, path: Path, requirements: Requirements, scratch: Path) -> Iterator[list[str]]:
    python = str(path / "bin" / "python")
    extras = ",".join(sorted(requirements.extras & provided_extras()))
    ours = f"{DISTRIBUTION}[{extras}] @ {pack_for_venv(scratch).as_uri()}"
    # OpenEnv is overridden in what the folder requires, and in what that requires in turn.
    overrides = write_lines(scratch / "overrides.txt", [ours, NO_PUBLIC_PACKAGE])
    # A project's own file may have settings for uv.
    is_project = requirements.file.name == PROJECT_FILE
    listed = str(requirements.file) if is_project else write_lines(scratch / "requirements.txt", requirements.lines)
    install = [uv, "pip", "install", "--python", python, "--override", overrides, "-r", listed, ours]

    yield [uv, "venv", "--no-project", "--python", sys.executable, str(path)]
    if requirements.is_locked:
        export = scratch / "export.txt"
        yield _export(uv, export)
        install += ["-c", write_lines(scratch / "pins.txt", _pins(export.read_text(encoding="utf-8")))]
    yield install


def _export(uv: str, file: Path) -> list[str]:
    """Return the command that writes what the lock has chosen, but for what only OpenEnv needs.

    Which of that there is follows the OpenEnv that runs here.
    """
    command = [uv, "export", "--frozen", "--no-emit-project", "--all-extras", "--no-hashes", "--no-annotate"]
    command += ["--no-header", "--quiet", "--python", sys.executable, "--output-file", str(file)]
    for name in sorted(OURS):
        command += ["--prune", name]
    return command


def _pins(exported: str) -> list[str]:
    """Return the lines that choose a version; a folder or a repository is no constraint."""
    return [line for line in exported.splitlines() if "==" in line.partition(";")[0] and " @ " not in line]


def _remove_unused(folder: Path, kept: int) -> None:
    """Remove the environments that were used least recently, as far as they are too many and not in use."""
    found = sorted((path for path in folder.iterdir() if path.is_dir()), key=_used_at, reverse=True)
    for path in found[kept:]:
        with _locked_alone(path) as is_unused:
            if is_unused:
                logger.info("removing the Python environment %s, which was used least recently", path)
                (path / READY_FILE).unlink(missing_ok=True)  # first: what is half removed must not count as complete
                shutil.rmtree(path, ignore_errors=True)


def _used_at(path: Path) -> float:
    try:
        return (path / READY_FILE).stat().st_mtime
    except OSError:  # it is not complete, or has just been removed
        return 0.0
