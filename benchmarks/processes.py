"""Server processes: started on a core of their own, watched from outside, ended."""

import os
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from benchmarks.public_package import ROOT

START_TIMEOUT_S = 60.0


def split_cores() -> tuple[set[int], set[int]]:
    """Divide this process's cores between the server and the client.

    Returns:
        The server's core and the client's; both empty where there is one core only, or none can be chosen.
    """
    if not hasattr(os, "sched_getaffinity"):  # only Linux has it
        return set(), set()
    cores = sorted(os.sched_getaffinity(0))
    return ({cores[0]}, {cores[1]}) if len(cores) > 1 else (set(), set())


def pin(process_id: int, cores: set[int]) -> None:
    """Keep a process on these cores; an empty set leaves it as it is. The process id 0 is this process."""
    if cores:
        os.sched_setaffinity(process_id, cores)


def free_port() -> int:
    """Return a port of the loopback interface that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerProcess:
    """A server in a process of its own, from ``__enter__`` to ``__exit__``.

    Args:
        python: The interpreter to run it with.
        module: The module to run, from the repository's root; it is given ``--port`` and ``arguments``.
        arguments: Its further arguments.
        cores: Where to keep it; empty for anywhere.
    """

    def __init__(self, python: Path, module: str, arguments: Sequence[str] = (), cores: set[int] | None = None) -> None:
        self.port = free_port()
        self._command = [str(python), "-m", module, "--port", str(self.port), *arguments]
        self._cores = cores or set()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, cwd=ROOT)
        pin(self._process.pid, self._cores)
        self._watched = psutil.Process(self._process.pid)
        self._wait_until_it_listens()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def cpu_seconds(self) -> float:
        """Return the CPU time that the process and its threads have used so far."""
        times = self._watched.cpu_times()
        return float(times.user + times.system)

    def memory_bytes(self) -> int:
        """Return the memory that would be free if the process ended."""
        return int(self._watched.memory_full_info().uss)

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
