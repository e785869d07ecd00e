"""Import specs: a class or function that another process imports by its name, with arguments for it."""

import fcntl
import importlib.util
import inspect
import io
import os
import pickle
import select
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import spawn
from pathlib import Path
from typing import Any, Self

from openenv.core.exceptions import ConfigurationError
from openenv.core.import_guard import importing

# Names of the program's main module, in its own process and in a process that has imported it again.
_MAIN_NAMES = {"__main__", "__mp_main__"}


@dataclass(frozen=True)
class ImportSpec:
    """Import spec of a class, a function or a ``functools.partial``, for another process.

    The other process has the ``sys.path`` of this one.

    Attributes:
        pickled: Pickle of the value, which names classes and functions by their import paths.
        preparation: Preparation data of ``multiprocessing``, applied before the import: the program's arguments and, if
            needed, its main module.
        packages: File of each package or module of the value, by its name; without those of Python itself.
        needed_for: The setting that needs the import, as a user writes it.
    """

    pickled: bytes
    preparation: Mapping[str, Any]
    packages: Mapping[str, str]
    needed_for: str

    @classmethod
    def of(cls, value: Any, what: str, *, needed_for: str, instead: str) -> Self:
        """Create the import spec of a value.

        Args:
            value: A class, a function or a ``functools.partial``; or several in a tuple.
            what: Name of the value in errors.
            needed_for: The setting that needs the import, as in ``workers=2``.
            instead: The setting that works without the import, as in ``workers=1``.

        Raises:
            ConfigurationError: Another process can't import the value.
        """
        try:
            pickled, modules = _pickled(value)
            preparation = _preparation(modules & _MAIN_NAMES)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigurationError(
                f"{needed_for} needs {what} to be importable in another process, which is not possible: {error}. "
                "Define classes and functions at the top level of a module, in a file; a functools.partial of one may "
                f"add arguments that can be pickled. Or serve it with {instead}."
            ) from error
        return cls(pickled, preparation, _packages(modules), needed_for)

    def without_arguments(self) -> Self:
        """Return this import spec without the program's arguments, which may hold secrets; its name stays."""
        return replace(self, preparation={**self.preparation, "sys_argv": self.preparation["sys_argv"][:1]})

    def load(self, owner: socket.socket | None = None) -> Any:
        """Import the value, in the other process.

        Args:
            owner: Socket to the process that owns this one, on which nothing arrives meanwhile. When the owner ends,
                this process ends at once, even if the import hangs. For the main thread only.
        """
        with importing(self.needed_for), _ending_with(owner):
            for name, file in self.packages.items():
                _ensure_package(name, Path(file))
            spawn.prepare(dict(self.preparation))
            return pickle.loads(self.pickled)  # noqa: S301  # written by the process that started this one


@contextmanager
def _ending_with(owner: socket.socket | None) -> Iterator[None]:
    """Ask the kernel to end this process with its owner: a watching thread would not run while an import holds the GIL.

    SIGIO does that on Linux. macOS ignores SIGIO, so there an import has to finish before this process can end.
    """
    if owner is None:
        yield
        return
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    flags = fcntl.fcntl(owner, fcntl.F_GETFL)
    fcntl.fcntl(owner, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(owner, fcntl.F_SETFL, flags | os.O_ASYNC)
    poll = select.poll()
    poll.register(owner)
    if any(event & select.POLLHUP for _, event in poll.poll(0)):  # the owner ended before, which sends no signal
        signal.raise_signal(signal.SIGKILL)
    try:
        yield
    finally:
        fcntl.fcntl(owner, fcntl.F_SETFL, flags)


def _pickled(value: Any) -> tuple[bytes, set[str]]:
    buffer = io.BytesIO()
    pickler = _Pickler(buffer)
    pickler.dump(value)
    return buffer.getvalue(), pickler.modules


class _Pickler(pickle.Pickler):
    """Pickler that collects the modules of the classes and functions in a value."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.modules: set[str] = set()

    def reducer_override(self, value: Any) -> Any:
        """Collect the module; pickle the value as usual."""
        if inspect.isroutine(value) or inspect.isclass(value):
            self.modules.add(str(value.__module__))
        return NotImplemented


def _preparation(mains: set[str]) -> dict[str, Any]:
    """Return the preparation data of a process for values of the main module, which has one of these names."""
    arguments = {"sys_argv": sys.argv}
    if not mains:
        return arguments
    # Not multiprocessing.spawn.get_preparation_data, which also fixes the program's start method, and does not handle a
    # main module that is being imported again.
    main = sys.modules[mains.pop()]
    if main.__spec__ is not None:
        return {**arguments, "init_main_from_name": main.__spec__.name}
    file = getattr(main, "__file__", None)
    if file is None or not Path(file).is_file():
        raise pickle.PicklingError("it was typed into an interpreter or a notebook")
    return {**arguments, "init_main_from_path": str(Path(file).absolute())}


def _packages(modules: set[str]) -> dict[str, str]:
    """Return the files of the top-level packages; those without a file are found on ``sys.path`` anyway."""
    tops = {module.partition(".")[0] for module in modules} - _MAIN_NAMES - sys.stdlib_module_names
    files = {top: getattr(sys.modules.get(top), "__file__", None) for top in sorted(tops)}
    return {top: file for top, file in files.items() if file is not None}


def _ensure_package(name: str, file: Path) -> None:
    """Import a package from the given file, even if ``sys.path`` has another package of its name."""
    found = importlib.util.find_spec(name)
    if found is not None and found.origin == str(file):
        return
    folders = [str(file.parent)] if file.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=folders)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
