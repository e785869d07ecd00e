"""Launcher of the template process, which requests forks and receives their exit status."""

import asyncio
import json
import pickle
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, Self

from openenv.core.env_server.isolation.plan import Plan
from openenv.core.env_server.isolation.template import FORK, kill_group
from openenv.core.exceptions import ConfigurationError, EnvironmentFactoryError

_PROGRAM = """\
import sys
sys.path[:] = {path!r}
from openenv.core.env_server.isolation.template import main
main({control}, {plan})
"""

_TEMPLATE_GONE = "the process that they are forked from has ended; try again"
# Seconds that the template gets to end its processes, once its socket is closed: more than the processes get.
_END_TIMEOUT_S = 8.0


class Forked(NamedTuple):
    """Forked process.

    Attributes:
        pid: Id of the process and of its process group.
        connection: Socket to the process.
        ended: Resolved at the process's end with its exit status: below 0 a signal's number, ``None`` where unknown.
    """

    pid: int
    connection: socket.socket
    ended: "asyncio.Future[int | None]"


class Launcher:
    """Handle of a running template process.

    Args:
        template: The template process.
        server: Socket to the template.
    """

    def __init__(self, template: subprocess.Popen[bytes], server: socket.socket) -> None:
        self._template = template
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._received = b""
        self._turn = asyncio.Lock()
        self._started: asyncio.Future[int | str] | None = None
        self._processes: dict[int, asyncio.Future[int | None]] = {}
        self._loop.add_reader(server.fileno(), self._read)

    @classmethod
    async def start(cls, plan: Plan) -> Self:
        """Start a template and wait until it has imported the environment.

        Raises:
            ConfigurationError: The import failed, or the template ended.
        """
        template, server, threads = await asyncio.to_thread(_start, plan)
        if threads:  # threads that the module has started; a fork would not have them
            await asyncio.to_thread(_end, template, server)
            template, server, _ = await asyncio.to_thread(_start, replace(plan, preload=False))
        server.setblocking(False)
        return cls(template, server)

    @property
    def alive(self) -> bool:
        """Whether the template still runs."""
        return not self._closed

    async def fork(self, name: str) -> Forked:
        """Fork a process. Must not be cancelled: the template's answers come in order.

        Args:
            name: Name of the factory, for the error.

        Raises:
            EnvironmentFactoryError: The system can't start the process, or the template has ended.
        """
        async with self._turn:
            if self._closed:
                raise EnvironmentFactoryError(name, f"No process could be started for {name}: {_TEMPLATE_GONE}.")
            ours, theirs = socket.socketpair()
            self._started = self._loop.create_future()
            with theirs, suppress(ConnectionError):  # the template has ended; _read sees that
                socket.send_fds(self._server, [FORK], [theirs.fileno()])
            pid = await self._started
        if isinstance(pid, int):
            return Forked(pid, ours, self._processes[pid])
        ours.close()
        raise EnvironmentFactoryError(name, f"No process could be started for {name}: {pid}.")

    async def close(self) -> None:
        """End the template and its remaining processes."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._server.fileno())
            await asyncio.to_thread(_end, self._template, self._server)

    def _read(self) -> None:
        try:
            data = self._server.recv(65536)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._gone()
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._heard(json.loads(line))

    def _heard(self, message: dict[str, Any]) -> None:
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

    def _gone(self) -> None:
        """Kill the processes of a template that was killed from outside: no process reaps or ends them now."""
        self._closed = True
        self._loop.remove_reader(self._server.fileno())
        self._loop.run_in_executor(None, _end, self._template, self._server)
        self._settle(_TEMPLATE_GONE)
        for pid, ended in self._processes.items():
            kill_group(pid)
            ended.set_result(None)
        self._processes.clear()


def _start(plan: Plan) -> tuple[subprocess.Popen[bytes], socket.socket, int]:
    """Start a template. Return its process, the socket to it, and how many threads the environment's module runs."""
    ours, theirs = socket.socketpair()
    with theirs, tempfile.TemporaryFile() as file:
        pickle.dump(plan, file)
        file.seek(0)
        program = _PROGRAM.format(path=sys.path, control=theirs.fileno(), plan=file.fileno())
        template = subprocess.Popen(  # noqa: S603  # this interpreter, and a constant program
            [sys.executable, "-P", "-c", program],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), file.fileno()),
            start_new_session=True,  # the server handles Ctrl-C, and ends the template in order
        )
    with ours.makefile("rb", buffering=0) as lines:
        first = lines.readline()
    answer = json.loads(first) if first else {"failed": "it ended without a word"}
    if "failed" in answer:
        _end(template, ours)
        raise ConfigurationError(
            f'isolation="process": a process for the environments could not import them: {answer["failed"]}'
        )
    return template, ours, int(answer["threads"])


def _end(template: subprocess.Popen[bytes], server: socket.socket) -> None:
    server.close()
    try:
        template.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        template.kill()
        template.wait()
