"""A server in a process of its own, which can be killed and started again on the same port, and looked into."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.request import urlopen

import psutil

from openenv.core.providers.health import wait_until_healthy

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0
# How a log shows that something went wrong which nobody had thought of.
_UNHANDLED = re.compile(r"Traceback|exception was never retrieved|Exception ignored| (ERROR|CRITICAL) ")


class _Look(NamedTuple):
    """What a process has: bytes that are resident, threads, file descriptors."""

    memory: int
    threads: int
    descriptors: int


def _looked_at(process: psutil.Process) -> _Look:
    try:
        return _Look(process.memory_info().rss, process.num_threads(), process.num_fds())
    except psutil.NoSuchProcess:  # it has ended since it was listed
        return _Look(0, 0, 0)


class Server:
    """A server from ``__enter__`` to ``__exit__``, which may die and rise in between.

    Args:
        command: The arguments of ``python`` that serve, without ``--port``.
        folder: Where its log goes.
    """

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        # Bound and never listening: the port stays this server's while it is down, connections to it are refused, and
        # no client is given it as its own.
        self._port = socket.socket()
        self._port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._port.bind(("127.0.0.1", 0))
        self.port: int = self._port.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [sys.executable, *command, "--port", str(self.port)]
        self._log = folder / f"server-{self.port}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def of(
        cls, environment: str, folder: Path, *, workers: int = 1, log_level: str = "warning", **settings: Any
    ) -> Self:
        """Make a server of an environment of the chaos tests.

        Args:
            environment: Name of its class.
            folder: Where its log goes.
            workers: Processes that serve together.
            log_level: Least severe message in the log.
            **settings: See ``ServerSettings`` and ``create_fastapi_app``.
        """
        command = ["-m", "tests.chaos.server_program", "--environment", environment]
        command += ["--workers", str(workers), "--log-level", log_level]
        command += [f"--setting={name}={value}" for name, value in settings.items()]
        return cls(command, folder)

    def start(self) -> None:
        """Start it and wait until it serves."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until_healthy(self.url, PATIENCE_S, self._check_alive)

    def kill(self) -> None:
        """End it and its workers as ``kill -9`` does."""
        assert self._process is not None
        family = self.processes()
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE_S)
        psutil.wait_procs(family, PATIENCE_S)

    def processes(self) -> list[psutil.Process]:
        """List the server's process and all that it started."""
        assert self._process is not None
        server = psutil.Process(self._process.pid)
        return [server, *server.children(recursive=True)]

    def ask(self, path: str) -> Any:
        """Get what a route says."""
        with urlopen(f"{self.url}{path}", timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def memory_bytes(self) -> int:
        """Memory that is resident, of all its processes together."""
        return sum(_looked_at(process).memory for process in self.processes())

    def handles(self) -> dict[str, int]:
        """Count threads and file descriptors, of all its processes together."""
        looks = [_looked_at(process) for process in self.processes()]
        return {
            "threads": sum(look.threads for look in looks),
            "file descriptors": sum(look.descriptors for look in looks),
            "processes": len(looks),
        }

    def log(self) -> str:
        """Read what it has logged so far."""
        return self._log.read_text(errors="replace")

    def assert_nothing_unhandled(self) -> None:
        """Fail if the log has an exception that nobody handled."""
        found = _UNHANDLED.search(self.log())
        assert found is None, self.log()[max(0, found.start() - 200) : found.start() + 3000]

    def _check_alive(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, f"the server ended: {self.log()[-2000:]}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process is not None
        status = self._process.poll()
        if error is not None:
            error.add_note(f"the server {'lives' if status is None else f'ended with {status}'}:\n{self.log()[-3000:]}")
        if status is None:
            self.kill()
        self._port.close()
