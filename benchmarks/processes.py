"""Server processes: started on a core of their own, watched from outside, ended."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from benchmarks.public_package import ROOT

START_TIMEOUT_S = 60.0
# More than a server with workers gives these to end in order.
END_TIMEOUT_S = 20.0

_LINUX: bool = sys.platform == "linux"


def every_core() -> set[int]:
    """Return the cores that this process may use; empty where none can be chosen."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()  # only Linux has it


def split_cores() -> tuple[set[int], set[int]]:
    """Divide this process's cores between the server and the client.

    Returns:
        The server's core and the client's; both empty where there is one core only, or none can be chosen.
    """
    cores = sorted(every_core())
    return ({cores[0]}, {cores[1]}) if len(cores) > 1 else (set(), set())


def pin(process_id: int, cores: set[int]) -> None:
    """Keep a process on these cores; an empty set leaves it as it is. The process id 0 is this process."""
    if cores:
        os.sched_setaffinity(process_id, cores)


@contextmanager
def pinned(cores: set[int]) -> Iterator[None]:
    """Keep this process, and what it starts, on these cores for a while."""
    before = every_core()
    pin(0, cores)
    try:
        yield
    finally:
        pin(0, before)


def cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU time that a process and its threads have used so far."""
    if _LINUX:
        # clock_getcpuclockid(3): the clock counts nanoseconds, where the times in /proc count hundredths of a second.
        return time.clock_gettime((~process.pid << 3) | 2)
    times = process.cpu_times()
    return float(times.user + times.system)


def reserve_port() -> socket.socket:
    """Return a socket that has a port of the loopback interface, which no other program is given until it is closed.

    On Linux a server that reuses addresses, as servers do, may listen on the port meanwhile.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


class ServerProcess:
    """A server in a process of its own, from ``__enter__`` to ``__exit__``.

    Args:
        python: The interpreter to run it with.
        module: The module to run, from the repository's root; it is given ``--port`` and ``arguments``.
        arguments: Its further arguments.
        cores: Where to keep it; empty for anywhere.
        root: The repository to run it in.
    """

    def __init__(
        self,
        python: Path,
        module: str,
        arguments: Sequence[str] = (),
        cores: set[int] | None = None,
        root: Path = ROOT,
    ) -> None:
        # From ``__enter__`` on.
        self.port = 0
        self._root = root
        self._program = [str(python), "-m", module]
        self._arguments = arguments
        self._cores = cores or set()

    def __enter__(self) -> Self:
        self._reserved = reserve_port()
        self.port = int(self._reserved.getsockname()[1])
        if not _LINUX:
            self._reserved.close()
        self._command = [*self._program, "--port", str(self.port), *self._arguments]
        self._process = subprocess.Popen(self._command, cwd=self._root)
        pin(self._process.pid, self._cores)
        self._watched = psutil.Process(self._process.pid)
        self._wait_until_it_listens()
        return self

    @property
    def url(self) -> str:
        """What clients connect to."""
        return f"http://127.0.0.1:{self.port}"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reserved.close()

    def cpu_seconds(self) -> float:
        """Return the CPU time that the server and its worker processes have used so far."""
        return sum(cpu_seconds(process) for process in self._processes())

    def memory_bytes(self) -> int:
        """Return the memory that would be free if the server ended."""
        return sum(int(process.memory_full_info().uss) for process in self._processes())

    def _processes(self) -> list[psutil.Process]:
        return [self._watched, *self._watched.children(recursive=True)]

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended with {self._process.returncode}: {' '.join(self._command)}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        self._process.kill()
        raise RuntimeError(f"the server did not listen within {START_TIMEOUT_S:g} s: {' '.join(self._command)}")
