"""Fork server, as its parent sees it: requests forks and receives their exit status."""

import asyncio
import json
import os
import pickle
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, Self

from openenv.core.env_server.isolation.forkserver_config import ForkServerConfig
from openenv.core.env_server.isolation.forkserver_main import FORK, kill_group
from openenv.core.exceptions import ConfigurationError, EnvironmentFactoryError
from openenv.core.wire.redaction import withheld_variables

_PROGRAM = """\
import sys
sys.path[:] = {path!r}
from openenv.core.env_server.isolation.forkserver_main import main
main({control}, {config})
"""

_ENDED = "the process that they are forked from has ended; try again"
# Seconds that the fork server gets to end its processes, once its socket is closed: more than the processes get.
_END_TIMEOUT_S = 8.0


class ForkedProcess(NamedTuple):
    """Forked process.

    Attributes:
        pid: Id of the process and of its process group.
        connection: Socket to the process.
        ended: Resolved at the process's end with its exit status: below 0 a signal's number, ``None`` where unknown.
    """

    pid: int
    connection: socket.socket
    ended: "asyncio.Future[int | None]"


class ForkServer:
    """Running fork server.

    Args:
        process: Process of the fork server.
        connection: Socket to that process.
    """

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self._process = process
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._received = b""
        self._turn = asyncio.Lock()
        self._started: asyncio.Future[int | str] | None = None
        self._processes: dict[int, asyncio.Future[int | None]] = {}
        self._loop.add_reader(connection.fileno(), self._read)

    @classmethod
    async def start(cls, config: ForkServerConfig) -> Self:
        """Start a fork server and wait until it has imported the environment.

        Raises:
            ConfigurationError: The import failed, or the process ended.
        """
        process, connection, threads = await asyncio.to_thread(_start, config)
        if threads:  # threads that the module has started; a fork would not have them
            await asyncio.to_thread(_end, process, connection)
            process, connection, _ = await asyncio.to_thread(_start, replace(config, preload=False))
        connection.setblocking(False)
        return cls(process, connection)

    @property
    def alive(self) -> bool:
        """Whether the fork server still runs."""
        return not self._closed

    async def fork(self, name: str) -> ForkedProcess:
        """Fork a process. Must not be cancelled: the fork server answers in order.

        Args:
            name: Name of the factory, for the error.

        Raises:
            EnvironmentFactoryError: The system can't start the process, or the fork server has ended.
        """
        async with self._turn:
            if self._closed:
                raise EnvironmentFactoryError(name, f"No process could be started for {name}: {_ENDED}.")
            ours, theirs = socket.socketpair()
            self._started = self._loop.create_future()
            with theirs, suppress(ConnectionError):  # the fork server has ended; _read sees that
                socket.send_fds(self._connection, [FORK], [theirs.fileno()])
            pid = await self._started
        if isinstance(pid, int):
            return ForkedProcess(pid, ours, self._processes[pid])
        ours.close()
        raise EnvironmentFactoryError(name, f"No process could be started for {name}: {pid}.")

    async def close(self) -> None:
        """End the fork server and its remaining processes."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._connection.fileno())
            await asyncio.to_thread(_end, self._process, self._connection)

    def _read(self) -> None:
        try:
            data = self._connection.recv(65536)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._lost()
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._receive(json.loads(line))

    def _receive(self, message: dict[str, Any]) -> None:
        if "ended" in message:
            self._processes.pop(message["ended"]).set_result(message["code"])
        elif "started" in message:
            self._processes[message["started"]] = self._loop.create_future()
            self._settle(message["started"])
        else:
            self._settle(message["refused"])

    def _settle(self, started: int | str) -> None:
        if self._started is not None and not self._started.done():
            self._started.set_result(started)

    def _lost(self) -> None:
        """Kill the processes of a fork server that was killed from outside: no process reaps or ends them now."""
        self._closed = True
        self._loop.remove_reader(self._connection.fileno())
        self._loop.run_in_executor(None, _end, self._process, self._connection)
        self._settle(_ENDED)
        for pid, ended in self._processes.items():
            kill_group(pid)
            ended.set_result(None)
        self._processes.clear()


def _start(config: ForkServerConfig) -> tuple[subprocess.Popen[bytes], socket.socket, int]:
    """Start a fork server. Return its process, the socket to it, and the number of threads that its imports started."""
    ours, theirs = socket.socketpair()
    with theirs, tempfile.TemporaryFile() as file:
        pickle.dump(config, file)
        file.seek(0)
        program = _PROGRAM.format(path=sys.path, control=theirs.fileno(), config=file.fileno())
        process = subprocess.Popen(  # noqa: S603  # this interpreter, and a constant program
            [sys.executable, "-P", "-c", program],
            stdin=subprocess.DEVNULL,
            env=_variables(config),
            pass_fds=(theirs.fileno(), file.fileno()),
            start_new_session=True,  # the server handles Ctrl-C, and ends the fork server in order
        )
    with ours.makefile("rb", buffering=0) as lines:
        first = lines.readline()
    answer = json.loads(first) if first else {"failed": "it ended without an answer"}
    if "failed" in answer:
        _end(process, ours)
        raise ConfigurationError(
            f'isolation="process": a process for the environments could not import them: {answer["failed"]}'
        )
    return process, ours, int(answer["threads"])


def _variables(config: ForkServerConfig) -> dict[str, str]:
    """Return the environment variables of the fork server: without secrets, where agents run code."""
    secrets = withheld_variables() if config.confined else []
    return {name: value for name, value in os.environ.items() if name not in secrets}


def _end(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    connection.close()
    try:
        process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
