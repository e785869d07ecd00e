"""Supervisor of the workers: starts them, distributes clients, replaces workers that die, and ends them."""

import asyncio
import errno
import json
import logging
import os
import pickle
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from types import FrameType
from typing import Any

from openenv.core.env_server.access.policy import AuthRequirement, RequiredToken
from openenv.core.env_server.capacity.slots import SharedCounts
from openenv.core.env_server.execution.import_spec import ImportSpec
from openenv.core.env_server.workers.channel import Channel, ChannelMessage, Kind
from openenv.core.env_server.workers.worker import Assignment
from openenv.core.exceptions import ProviderError

logger = logging.getLogger(__name__)

# sys.path first: the worker imports from the same paths as this process.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.stdin.buffer.readline()); "
    "from openenv.core.env_server.workers.worker import main; main()"
)
_STOPPING_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Failed starts of a replacement in a row after which the server ends.
_START_ATTEMPTS = 3
_START_PAUSE_S = 0.5
# Pause before a full channel is tried again.
_FULL_PAUSE_S = 0.01
# Poll interval for the worker that replaces a dead one.
_REPLACED_PAUSE_S = 0.1
# Added to the time within which workers end their draining themselves.
_DRAIN_MARGIN_S = 1.0
_NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_RESOURCES_PAUSE_S = 1.0


class WorkerProcess:
    """Worker process, seen from its supervisor.

    Args:
        number: Number of the worker, from 0.
        process: The process.
        channel: The supervisor's end of the channel.

    Attributes:
        load: Number of connected clients.
        ready: Whether the worker has begun to accept clients.
        stopping: Whether the worker shuts down, and accepts no more clients.
        drain_s: Seconds that the worker waits for episodes when it drains.
        auth_requirement: Requirement for peers.
        failure: Why the worker can't serve, if the worker reported that.
    """

    def __init__(self, number: int, process: asyncio.subprocess.Process, channel: Channel) -> None:
        self.number = number
        self.load = 0
        self.ready = False
        self.stopping = False
        self.drain_s = 0.0
        self.auth_requirement = AuthRequirement(RequiredToken.OF_VARIABLE)
        self.failure = ""
        self.process = process
        self.channel = channel

    def __str__(self) -> str:
        return f"worker {self.number} (process {self.process.pid})"

    @property
    def accepts_clients(self) -> bool:
        """Whether the worker accepts clients now."""
        return self.ready and not self.stopping

    def send_socket(self, kind: Kind, carried: socket.socket) -> bool:
        """Send a socket; return ``False`` where the channel is full or closed."""
        if not self.accepts_clients:
            return False
        try:
            self.channel.send(kind, carried=carried)
        except OSError:  # its channel is full, or it has died
            return False
        self.load += kind is Kind.CLIENT
        return True

    def note(self, message: ChannelMessage) -> None:
        """Update the attributes from a message of the worker."""
        if message.kind is Kind.READY:
            self.ready = True
            self.drain_s, (token, trusts_this_machine) = message.value
            self.auth_requirement = AuthRequirement(RequiredToken(token), trusts_this_machine)
        elif message.kind is Kind.FAILED:
            self.failure = message.value
        elif message.kind is Kind.STOPPING:
            self.stopping = True
        elif message.kind is Kind.CLOSED:
            self.load -= message.value

    async def ended(self) -> str:
        """Wait for the process's end, and return how it ended."""
        code = await self.process.wait()
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"

    def stop(self) -> None:
        """Ask the worker to shut down in order now."""
        try:
            self.channel.send(Kind.STOP)
        except OSError:  # its channel is full, or it has died
            self.signal(signal.SIGTERM)
        if not self.ready:  # and does not read its channel yet
            self.signal(signal.SIGTERM)

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal, if it still runs."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                # Not Process.send_signal, whose poll may reap the process before asyncio does, which loses its status.
                os.kill(self.process.pid, number)


class Supervisor:
    """Server of a listening socket, with several workers.

    Args:
        make_app: Creates the application in each worker.
        count: Number of workers.
        listener: The listening socket.
        settings: Settings of uvicorn.
        on_ready: Called once every worker accepts clients, with the requirement for peers.
        grace_s: Seconds that workers get to shut down in order.

    Attributes:
        signals: The stopping signals that have arrived.
    """

    def __init__(
        self,
        make_app: ImportSpec,
        count: int,
        listener: socket.socket,
        settings: dict[str, Any],
        on_ready: Callable[[AuthRequirement], object],
        grace_s: float,
    ) -> None:
        self.signals: list[int] = []
        self._make_app = make_app
        self._count = count
        self._listener = listener
        self._settings = settings
        self._on_ready = on_ready
        self._grace_s = grace_s
        self._workers: dict[int, WorkerProcess] = {}
        self._auth_requirement = AuthRequirement(RequiredToken.OF_VARIABLE)
        self._all_ready = asyncio.Event()
        self._stop_requested = asyncio.Event()
        self._kill_requested = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._forwards: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve until a stopping signal arrives.

        Raises:
            ProviderError: A worker could not start serving.
        """
        self._listener.setblocking(False)
        with self._stopping_on_signals(), SharedCounts.create(self._count) as counts:
            tasks = [asyncio.create_task(self._keep(number, counts)) for number in range(self._count)]
            tasks += [asyncio.create_task(self._distribute()), asyncio.create_task(self._stopped())]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in (*tasks, *self._forwards):
                    task.cancel()
                await asyncio.gather(*tasks, *self._forwards, return_exceptions=True)
                await self._end_workers()

    async def _keep(self, number: int, counts: SharedCounts) -> None:
        """Run a worker, and replace it whenever it dies."""
        failures = 0
        while True:
            worker = await self._start(number, counts)
            how = await worker.ended()
            self._receive(worker)  # its last messages
            self._remove(worker)
            counts.clear(number)
            if self._stop_requested.is_set():
                await asyncio.Event().wait()  # until run() ends
            failures = 0 if worker.ready else failures + 1
            if not worker.ready and (failures == _START_ATTEMPTS or not self._all_ready.is_set()):
                raise ProviderError(worker.failure or f"{worker} {how} before it was ready; see its output.")
            logger.warning("%s %s; it is replaced by another worker. Only sessions in a journal continue", worker, how)
            await asyncio.sleep(_START_PAUSE_S if failures else 0)

    async def _start(self, number: int, counts: SharedCounts) -> WorkerProcess:
        ours, theirs = Channel.pair()
        assignment = Assignment(
            number=number,
            count=self._count,
            channel=theirs.connection.fileno(),
            slots=counts.descriptor,
            make_app=self._make_app,
            settings=self._settings,
            grace_s=self._grace_s,
        )
        try:
            async with self._one_at_a_time:
                process = await _spawn(assignment)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        worker = self._workers[number] = WorkerProcess(number, process, ours)
        asyncio.get_running_loop().add_reader(ours.connection.fileno(), self._receive, worker)
        return worker

    def _remove(self, worker: WorkerProcess) -> None:
        del self._workers[worker.number]
        asyncio.get_running_loop().remove_reader(worker.channel.connection.fileno())
        worker.channel.close()

    def _receive(self, worker: WorkerProcess) -> None:
        try:
            messages = worker.channel.receive()
        except BlockingIOError:
            return
        except (EOFError, ConnectionError):  # the worker ends, or has ended
            asyncio.get_running_loop().remove_reader(worker.channel.connection.fileno())
            return
        for message in messages:
            worker.note(message)
            if message.kind is Kind.FORWARD and message.carried is not None:
                number, patience_s = message.value
                task = asyncio.create_task(self._forward(number, patience_s, message.carried))
                self._forwards.add(task)
                task.add_done_callback(self._forwards.discard)
        if len(self._workers) == self._count and all(worker.ready for worker in self._workers.values()):
            self._auth_requirement = worker.auth_requirement
            self._all_ready.set()

    async def _forward(self, number: int, patience_s: float, connection: socket.socket) -> None:
        """Send a worker its end of another worker's stream; close it where the worker is not ready in time."""
        deadline = time.monotonic() + patience_s
        with connection:
            while (worker := self._workers.get(number)) is None or not worker.send_socket(Kind.FORWARDED, connection):
                if worker is not None and worker.accepts_clients:
                    await asyncio.sleep(_FULL_PAUSE_S)
                elif time.monotonic() < deadline and not self._stop_requested.is_set():
                    await asyncio.sleep(_REPLACED_PAUSE_S)
                else:
                    return

    async def _distribute(self) -> None:
        """Send each client to the worker with the fewest clients."""
        await self._all_ready.wait()
        self._on_ready(self._auth_requirement)
        while True:
            with await self._accept() as client:
                await self._distribute_client(client)

    async def _distribute_client(self, client: socket.socket) -> None:
        while True:
            for worker in sorted(self._workers.values(), key=attrgetter("load", "number")):
                if worker.send_socket(Kind.CLIENT, client):
                    return
            await asyncio.sleep(_FULL_PAUSE_S)

    async def _accept(self) -> socket.socket:
        while True:
            try:
                client, _ = await asyncio.get_running_loop().sock_accept(self._listener)
            except ConnectionAbortedError:  # the client disconnected before it was accepted
                continue
            except OSError as error:
                if error.errno not in _NO_RESOURCES:
                    raise
                logger.error("no client can be accepted for now: %s", error)
                await asyncio.sleep(_NO_RESOURCES_PAUSE_S)
                continue
            return client

    async def _stopped(self) -> None:
        """Wait for a signal; on SIGTERM, let the workers drain, while clients are served."""
        await self._stop_requested.wait()
        if self.signals[0] == signal.SIGTERM:
            workers = list(self._workers.values())
            for worker in workers:
                worker.signal(signal.SIGTERM)
            await self._ended(workers, max((worker.drain_s for worker in workers), default=0) + _DRAIN_MARGIN_S)

    async def _end_workers(self) -> None:
        """Shut the workers down in order; kill those that take too long, and all at a second signal."""
        workers = list(self._workers.values())
        for worker in workers:
            worker.stop()
        await self._ended(workers, self._grace_s)
        for worker in workers:
            worker.signal(signal.SIGKILL)
        await _all_ended(workers)
        for worker in workers:
            self._remove(worker)

    async def _ended(self, workers: list[WorkerProcess], timeout_s: float) -> None:
        """Wait until workers have ended, the time is over, or a second signal arrives."""
        ended = asyncio.create_task(_all_ended(workers))
        kill_requested = asyncio.create_task(self._kill_requested.wait())
        await asyncio.wait((ended, kill_requested), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        kill_requested.cancel()

    @contextmanager
    def _stopping_on_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._loop = asyncio.get_running_loop()
        handlers = {number: signal.signal(number, self._note_signal) for number in _STOPPING_SIGNALS}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _note_signal(self, number: int, _frame: FrameType | None) -> None:
        event = self._kill_requested if self.signals else self._stop_requested
        self.signals.append(number)
        self._loop.call_soon_threadsafe(event.set)


async def _all_ended(workers: list[WorkerProcess]) -> None:
    for worker in workers:
        await worker.ended()


def run_supervisor(supervisor: Supervisor) -> None:
    """Serve until a stopping signal arrives, then raise that signal again with its default action."""
    asyncio.run(supervisor.run())
    for number in reversed(supervisor.signals):
        signal.raise_signal(number)


async def _spawn(assignment: Assignment) -> asyncio.subprocess.Process:
    """Start a fresh interpreter and send its assignment."""
    with _later_interrupts():
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", _PROGRAM, f"worker-{assignment.number}"),
            stdin=asyncio.subprocess.PIPE,
            pass_fds=(assignment.channel, assignment.slots),
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(sys.path).encode() + b"\n" + pickle.dumps(assignment))
    process.stdin.close()
    return process


@contextmanager
def _later_interrupts() -> Iterator[None]:
    """Block SIGINT in a process that is being started, until the process ignores Ctrl-C itself."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
