"""What every measurement has at hand: the servers, the cores, and where its figures go."""

import json
import subprocess
import sys
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.effort import Effort
from benchmarks.processes import ServerProcess, every_core, pin, pinned, split_cores
from benchmarks.public_package import ROOT, public_python
from benchmarks.rows import Samples

PROGRAMS = "benchmarks.programs"
OUR_PYTHON = Path(sys.executable)

_SERVERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "floor": ("serve_echo", ()),
    "public": ("serve_public", ()),
    "public_sleeping": ("serve_public", ("--environment", "sleeping")),
    "ours": ("serve_ours", ("--environment", "non-blocking")),
    "ours_threaded": ("serve_ours", ("--environment", "threaded")),
    "ours_sleeping": ("serve_ours", ("--environment", "sleeping")),
    "ours_scored": ("serve_ours", ("--environment", "scored")),
    "ours_pictures": ("serve_gymnasium", ()),
    "ours_busy": ("serve_ours", ("--environment", "busy")),
}


def python_of(package: str) -> Path:
    """Return the interpreter that has a package, by the name of its server or row."""
    return public_python() if package.startswith("public") else OUR_PYTHON


class Bench:
    """The bench, from ``__enter__``, which takes this process to the clients' core, to ``__exit__``.

    Attributes:
        effort: How much is measured.
        rows: The rows that are asked for.
        samples: Where the figures go.
    """

    def __init__(self, effort: Effort, rows: set[str]) -> None:
        self.effort = effort
        self.rows = rows
        self.samples = Samples()
        self._every_core = every_core()
        self._server_cores, self._client_cores = split_cores()
        self._servers: dict[str, ServerProcess] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        pin(0, self._client_cores)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
        pin(0, self._every_core)

    def server(self, name: str) -> ServerProcess:
        """Return a server that runs until the bench ends; the first call starts it."""
        if name not in self._servers:
            self._servers[name] = self._stack.enter_context(self.fresh_server(name))
        return self._servers[name]

    def fresh_server(self, name: str, *arguments: str, anywhere: bool = False) -> ServerProcess:
        """Return a server that nobody has used, to be entered; what it did before would blur some figures.

        Args:
            name: Which.
            *arguments: Further arguments for its program.
            anywhere: Whether it may use every core, and not just the servers' one.
        """
        program, its_own = _SERVERS[name]
        cores = self._every_core if anywhere else self._server_cores
        return ServerProcess(python_of(name), f"{PROGRAMS}.{program}", (*its_own, *arguments), cores)

    def unpinned(self) -> AbstractContextManager[None]:
        """Let this process, and what it starts meanwhile, use every core, from ``__enter__`` to ``__exit__``."""
        return pinned(self._every_core)

    def drive(self, package: str, program: str, *arguments: str) -> Any:
        """Run a program with a package's interpreter, and return the JSON that it prints."""
        return json.loads(output(str(python_of(package)), "-m", f"{PROGRAMS}.{program}", *arguments))


def output(*command: str) -> str:
    """Run a command from the repository's root, and return what it prints.

    Raises:
        RuntimeError: It failed; the message has what it wrote to its standard error.
    """
    finished = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if finished.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {finished.returncode}:\n{finished.stderr}")
    return finished.stdout
