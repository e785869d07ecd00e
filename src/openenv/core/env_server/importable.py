"""What one process describes and another imports: a class or function, by its name, with arguments for it."""

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
from dataclasses import dataclass
from multiprocessing import spawn
from pathlib import Path
from typing import Any, Self

from openenv.core.exceptions import ConfigurationError

# The program's main module, in its own process and in one that has imported it once more.
_MAIN_NAMES = {"__main__", "__mp_main__"}

# Which setting this process imports something for, while it does.
_importing_for: list[str] = []


@dataclass(frozen=True)
class Importable:
    """A class, a function or a ``functools.partial``, for another process to import.

    That process has the ``sys.path`` of this one.

    Attributes:
        pickled: It, pickled, which names classes and functions by their import paths.
        preparation: What to do first, in the words of ``multiprocessing``: set the program's arguments and, if needed,
            import its main module.
        packages: File of each package or module that it is from, by its name; those of Python itself left out.
        needed_for: The setting that has it imported, as a user writes it.
    """

    pickled: bytes
    preparation: Mapping[str, Any]
    packages: Mapping[str, str]
    needed_for: str

    @classmethod
    def of(cls, value: Any, what: str, *, needed_for: str, instead: str) -> Self:
        """Describe a value.

        Args:
            value: A class, a function or a ``functools.partial``; or several in a tuple.
            what: What it is, for the error.
            needed_for: The setting that has it imported, as in ``workers=2``.
            instead: The setting that does without, as in ``workers=1``.

        Raises:
            ConfigurationError: Another process can't import it.
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

    def load(self, owner: socket.socket | None = None) -> Any:
        """Import it, in the other process.

        Args:
            owner: Socket to the process without which this one is of no use, and which says nothing meanwhile. When it
                goes, this process ends at once, even if the import hangs. To be given in the main thread only.
        """
        with importing(self.needed_for), _ending_with(owner):
            for name, file in self.packages.items():
                _ensure_package(name, Path(file))
            spawn.prepare(dict(self.preparation))
            return pickle.loads(self.pickled)  # noqa: S301  # written by the process that started this one


def refuse_while_importing() -> None:
    """Refuse to start a server where a process only imports the program that would start it.

    Raises:
        ConfigurationError: This is such a process.
    """
    if _importing_for:
        raise ConfigurationError(
            f"The program starts a server whenever it is imported, and {_importing_for[-1]} imports it once more. "
            'Start the server under `if __name__ == "__main__":`, or put the environment into a module of its own.'
        )


@contextmanager
def importing(needed_for: str) -> Iterator[None]:
    """Have every server refuse to start for the time of the block, in which a user's program may be imported.

    Args:
        needed_for: What imports it, for the error.
    """
    _importing_for.append(needed_for)
    try:
        yield
    finally:
        _importing_for.pop()


@contextmanager
def _ending_with(owner: socket.socket | None) -> Iterator[None]:
    """Have the kernel end this process: a thread that watches would not run while an import holds the GIL.

    That is what SIGIO does on Linux. macOS ignores it, and there an import has to end before this process can.
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
    if any(event & select.POLLHUP for _, event in poll.poll(0)):  # it went before, which gives no signal
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
    """Notes the modules of the classes and functions that it meets."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.modules: set[str] = set()

    def reducer_override(self, value: Any) -> Any:
        """Leave everything as it is."""
        if inspect.isroutine(value) or inspect.isclass(value):
            self.modules.add(str(value.__module__))
        return NotImplemented


def _preparation(mains: set[str]) -> dict[str, Any]:
    """Say how to prepare a process for what may be from the main module, which goes by one of these names."""
    arguments = {"sys_argv": sys.argv}
    if not mains:
        return arguments
    # Not multiprocessing.spawn.get_preparation_data, which settles the program's start method on the way, and knows
    # nothing of a main module that is being imported once more.
    main = sys.modules[mains.pop()]
    if main.__spec__ is not None:
        return {**arguments, "init_main_from_name": main.__spec__.name}
    file = getattr(main, "__file__", None)
    if file is None or not Path(file).is_file():
        raise pickle.PicklingError("it was typed into an interpreter or a notebook")
    return {**arguments, "init_main_from_path": str(Path(file).absolute())}


def _packages(modules: set[str]) -> dict[str, str]:
    """Find the files of the topmost packages; those without one are found along ``sys.path`` anyway."""
    tops = {module.partition(".")[0] for module in modules} - _MAIN_NAMES - sys.stdlib_module_names
    files = {top: getattr(sys.modules.get(top), "__file__", None) for top in sorted(tops)}
    return {top: file for top, file in files.items() if file is not None}


def _ensure_package(name: str, file: Path) -> None:
    """Import a package from where the describing process has it, whatever else goes by its name."""
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
