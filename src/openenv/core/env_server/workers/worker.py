"""Worker: a process that serves the clients whose sockets its supervisor sends."""

import asyncio
import logging
import pickle
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from threading import Thread
from types import FrameType
from typing import Any, cast

import uvicorn

from openenv.core.env_server.access.guard import guarded
from openenv.core.env_server.access.policy import AuthRequirement, check_access
from openenv.core.env_server.capacity.slots import SharedCounts
from openenv.core.env_server.execution.import_spec import ImportSpec
from openenv.core.env_server.logs import of_worker
from openenv.core.env_server.operations.drain import DrainingServer, sessions_of
from openenv.core.env_server.operations.routes import Operations
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.workers.channel import Channel, ChannelMessage, Kind
from openenv.core.env_server.workers.forwarding import (
    Forwarder,
    OtherWorkers,
    QueryMiddleware,
    Stream,
    answer_forwarded,
)
from openenv.core.exceptions import ConfigurationError, OpenEnvError

logger = logging.getLogger(__name__)

# A session stays with the number of its worker. So a call for a session of a dead worker waits for as long as the
# replacement may need to start; but less than a client waits for a connection, which is 10 seconds by default.
_REPLACED_WITHIN_S = 8.0


@dataclass(frozen=True)
class Assignment:
    """Configuration that a worker receives when it starts.

    Attributes:
        number: Number of the worker, from 0.
        count: How many workers the server has.
        channel: File descriptor of the channel's end.
        slots: File descriptor of the shared counts of slots.
        make_app: Creates the application.
        settings: Settings of uvicorn.
        grace_s: Seconds that the worker gets to shut down in order.
    """

    number: int
    count: int
    channel: int
    slots: int
    make_app: ImportSpec
    settings: dict[str, Any]
    grace_s: float


def main() -> None:
    """Serve until the supervisor stops this worker, or has ended. The assignment is read from standard input."""
    assignment: Assignment = pickle.load(sys.stdin.buffer)  # noqa: S301  # written by the supervisor
    # Ctrl-C reaches every process of a terminal; the supervisor handles it. Not SIG_IGN, which the processes that an
    # environment starts would inherit.
    signal.signal(signal.SIGINT, _leave_to_the_supervisor)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    channel = Channel(socket.socket(fileno=assignment.channel))
    watch = partial(_end_after_supervisor, channel.connection, assignment.grace_s)
    Thread(target=watch, name="end-after-supervisor", daemon=True).start()
    try:
        server = WorkerServer(_application(assignment, channel.connection), channel, assignment)
    except Exception as error:  # noqa: BLE001  # importing the author's modules may raise anything
        with suppress(OSError):
            channel.send(Kind.FAILED, _reason(error))
        sys.exit(1)
    server.run()
    # The server has shut down in order; now exit at once, as without workers: no thread of an environment delays that.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.raise_signal(signal.SIGTERM)


class WorkerServer(DrainingServer):
    """Server of sockets that are received over a channel, instead of from a listening socket.

    SIGTERM starts draining, as in any server; ``STOP`` on the channel shuts the server down now.

    Args:
        app: The application.
        channel: The worker's end of the channel.
        assignment: The worker's configuration.
    """

    def __init__(self, app: Any, channel: Channel, assignment: Assignment) -> None:
        others = {str(number) for number in range(assignment.count)} - {str(assignment.number)}
        sessions: SessionManager = app.state.openenv_sessions
        # The guard comes first: no call of a peer that may not use the server is forwarded.
        self._forwarder = Forwarder(app, others, partial(_connect, channel, patience_s=_REPLACED_WITHIN_S))
        super().__init__(
            uvicorn.Config(guarded(self._forwarder, app.state.openenv_access), **_settings(assignment)), sessions
        )
        self._drain_s = sessions.limits.drain_s
        self._auth_requirement: AuthRequirement = app.state.openenv_access.auth_requirement
        operations: Operations = app.state.openenv_operations
        operations.join_workers(assignment.number, OtherWorkers(others, partial(_connect, channel)).query)
        self._app = QueryMiddleware(app, operations.answer)
        self._channel = channel
        self._handed_over = 0
        self._connecting = 0
        self._reported = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, and accept clients from then on."""
        await super().startup(sockets=[])
        asyncio.get_running_loop().add_reader(self._channel.connection.fileno(), self._receive)
        with suppress(OSError):  # _receive sees that the supervisor has ended
            self._channel.send(Kind.READY, [self._drain_s, self._auth_requirement])

    async def on_tick(self, counter: int) -> bool:
        """Report disconnected clients to the supervisor; uvicorn calls this ten times a second."""
        closed = self._handed_over - self._connecting - len(self.server_state.connections)
        if closed > self._reported:
            with suppress(OSError):
                self._channel.send(Kind.CLOSED, closed - self._reported)
            self._reported = closed
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more clients, and close the connections."""
        with suppress(OSError):
            self._channel.send(Kind.STOPPING)
        asyncio.get_running_loop().remove_reader(self._channel.connection.fileno())
        self._forwarder.end_streams()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start draining on SIGTERM; ignore a second SIGTERM, which arrives where a whole process group is signalled.

        Only the supervisor ends a worker at once.
        """
        if not self._drain_requested:
            super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Drain on SIGTERM; ``main`` handles Ctrl-C."""
        signal.signal(signal.SIGTERM, self.handle_exit)
        yield

    def _receive(self) -> None:
        try:
            messages = self._channel.receive()
        except (EOFError, ConnectionError):
            asyncio.get_running_loop().remove_reader(self._channel.connection.fileno())
            self.should_exit = True
            return
        for message in messages:
            self._take(message)

    def _take(self, message: ChannelMessage) -> None:
        if message.kind is Kind.STOP:
            self.should_exit = True
            return
        if message.kind is Kind.CLIENT:
            self._handed_over += 1
        if message.carried is None:
            logger.error("a client was dropped: this process may open no more files (see `ulimit -n`)")
        elif message.kind is Kind.CLIENT:
            self._start(self._connect(message.carried))
        else:
            self._start(self._answer(message.carried))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task that the server's shutdown waits for, as for requests of clients."""
        task = asyncio.get_running_loop().create_task(work)
        self.server_state.tasks.add(task)
        task.add_done_callback(self.server_state.tasks.discard)

    async def _connect(self, client: socket.socket) -> None:
        self._connecting += 1
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, client)
        except OSError as error:
            logger.debug("a client disconnected before its connection was made: %s", error)
            client.close()
        finally:
            self._connecting -= 1

    def _protocol(self) -> asyncio.Protocol:
        """Create uvicorn's protocol for a socket."""
        kind = cast("Any", self.config.http_protocol_class)
        made: asyncio.Protocol = kind(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state, _loop=None
        )
        return made

    async def _answer(self, connection: socket.socket) -> None:
        stream = await Stream.over(connection)
        await answer_forwarded(self._app, self.lifespan.state, stream)


def _settings(assignment: Assignment) -> dict[str, Any]:
    """Return uvicorn's settings, with the worker's number in its log."""
    return {**assignment.settings, "log_config": of_worker(assignment.settings["log_config"], str(assignment.number))}


def _application(assignment: Assignment, supervisor: socket.socket) -> Any:
    """Create the application and join its sessions to those of the other workers."""
    app = assignment.make_app.load(supervisor)()
    sessions = sessions_of(app)
    if sessions is None:
        raise ConfigurationError(
            f"Expected an application that create_app has made, or HTTPEnvServer.register_routes has been called on, "
            f"got {type(app).__name__}; workers must count its sessions. Serve it with one worker."
        )
    check_access(app)
    app.state.openenv_server.prepare()  # here, so that a failure is reported to the supervisor
    sessions.join_workers(assignment.number, assignment.count, SharedCounts(assignment.slots, assignment.count))
    return app


async def _connect(channel: Channel, worker: str, patience_s: float = 0.0) -> Stream:
    """Open a stream to another worker. If that worker isn't ready in time, the stream ends."""
    ours, theirs = socket.socketpair()
    with theirs, suppress(OSError):
        channel.send(Kind.FORWARD, [int(worker), patience_s], theirs)
    return await Stream.over(ours)


def _end_after_supervisor(connection: socket.socket, grace_s: float) -> None:
    """Wait for the supervisor's end; then kill this process, after the time that it has to shut down in order."""
    poll = select.poll()
    poll.register(connection, 0)  # POLLHUP only
    poll.poll()
    time.sleep(grace_s)
    signal.raise_signal(signal.SIGKILL)


def _leave_to_the_supervisor(_signal: int, _frame: Any) -> None:
    """Do nothing."""


def _reason(error: Exception) -> str:
    """Return why there is no application: OpenEnv's errors are sentences, others need their traceback."""
    if isinstance(error, OpenEnvError):
        return str(error)
    return "the application could not be made.\n" + "".join(traceback.format_exception(error)).rstrip()
