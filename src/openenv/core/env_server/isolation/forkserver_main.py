"""Main function of the fork server's process, from which the environments' processes are forked.

The process has imported the environment's modules and runs nothing: no event loop, no thread, no instance. So a fork
loses no thread, shares its memory, and is ready within milliseconds. The server requests a fork on a socket, with the
new process's socket; the fork server reports each start and each exit. When the server has ended, the fork server ends
its processes and exits.
"""

import gc
import json
import os
import pickle
import selectors
import signal
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from openenv.core.confinement import confine
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.isolation.forkserver_config import ForkServerConfig
from openenv.core.env_server.isolation.process_main import serve_sessions
from openenv.core.tasks.task_set import task_set_of
from openenv.core.wire.redaction import withheld_variables

FORK = b"f"
"""Message that requests a fork, and carries the new process's socket."""

# Seconds that environments get to close when the server has ended.
_END_GRACE_S = 5.0
# Seconds that threads and exit functions of the author's module then get.
_EXIT_GRACE_S = 1.0


def main(control: int, config: int) -> None:
    """Run a fork server. In a forked process, this function returns when that process is to exit.

    Args:
        control: File descriptor of the socket to the server.
        config: File descriptor of a file with the pickled ``ForkServerConfig``.
    """
    with os.fdopen(config, "rb") as file:
        loaded: ForkServerConfig = pickle.load(file)  # noqa: S301  # written by the server
    with socket.socket(fileno=control) as server:
        try:
            factory = _load(loaded, server) if loaded.preload else None
        except BaseException as error:  # noqa: BLE001  # importing the author's module may raise anything
            _send(server, failed=f"{type(error).__name__}: {error}")
            _end_soon()
            return
        _send(server, threads=threading.active_count() - 1)
        connection = _ForkServerLoop(server).run()
    if connection is None:
        _end_soon()
        return
    if loaded.confined:
        confine()
    serve_sessions(connection, factory or _load(loaded), loaded.log_level)


def _load(config: ForkServerConfig, server: socket.socket | None = None) -> EnvironmentFactory:
    """Import the environments' factory. Where agents run code, remove the secrets that the import set as variables."""
    factory = config.load(server)
    if (tasks := task_set_of(factory.environment_class)) is not None:
        tasks.read()  # before the forks, which share the rows
    if config.confined:
        for name in withheld_variables():
            os.environ.pop(name)
    return factory


class _ForkServerLoop:
    """Loop that forks and reaps processes.

    Args:
        server: Socket to the server.
    """

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self._children: set[int] = set()
        # SIGCHLD makes the selector return.
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        signal.signal(signal.SIGCHLD, _let_it_wake)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        gc.collect()
        gc.freeze()  # a collection in one process would copy the memory that all processes share

    def run(self) -> socket.socket | None:
        """Fork at each request of the server. Return the socket in a forked process, ``None`` in the fork server."""
        while True:
            ready = [key.fileobj for key, _ in self._selector.select()]
            if self._woken in ready:
                self._reap()
            if self._server not in ready:
                continue
            connection = self._receive()
            if connection is None:
                self._end()
                return None
            if self._fork(connection):
                return connection
            connection.close()

    def _receive(self) -> socket.socket | None:
        """Read a request of the server. Return the socket of a new process, or ``None`` where the server has ended."""
        try:
            request, descriptors, _, _ = socket.recv_fds(self._server, len(FORK), 1)
        except ConnectionError:
            return None
        return socket.socket(fileno=descriptors[0]) if request else None

    def _fork(self, connection: socket.socket) -> bool:
        """Fork. Return whether this is the new process."""
        try:
            pid = os.fork()
        except OSError as error:
            _send(self._server, refused=str(error))
            return False
        if pid == 0:
            self._become_child()
            return True
        with suppress(OSError):  # the child makes the same call, perhaps earlier
            os.setpgid(pid, pid)
        self._children.add(pid)
        _send(self._server, started=pid)
        return False

    def _become_child(self) -> None:
        """Close the fork server's files, and start a process group, which can be killed as a whole."""
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        self._woken.close()
        self._waker.close()
        self._server.close()

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            self._woken.recv(4096)
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            if pid in self._children:  # not a process that the author's module has started on import
                self._children.remove(pid)
                kill_group(pid)  # the children that it has left
                _send(self._server, ended=pid, code=os.waitstatus_to_exitcode(status))

    def _end(self) -> None:
        """Wait for the processes, which end because the server has closed their sockets; kill those that do not end."""
        self._selector.unregister(self._server)
        deadline = time.monotonic() + _END_GRACE_S
        while self._children and time.monotonic() < deadline:
            self._selector.select(deadline - time.monotonic())
            self._reap()
        for pid in self._children:
            kill_group(pid)


def _end_soon() -> None:
    """Set an alarm that ends the fork server where the interpreter does not exit in time."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, _EXIT_GRACE_S)


def kill_group(pid: int) -> None:
    """Kill a process and its descendants in its process group."""
    with suppress(ProcessLookupError, PermissionError):  # PermissionError: a group of zombies on macOS
        os.killpg(pid, signal.SIGKILL)


def _send(server: socket.socket, **message: Any) -> None:
    with suppress(OSError):  # the server has ended; the next read shows that
        server.sendall(json.dumps(message).encode() + b"\n")


def _let_it_wake(_signal: int, _frame: Any) -> None:
    """Handle SIGCHLD: a signal reaches the wakeup descriptor only if it has a handler."""
