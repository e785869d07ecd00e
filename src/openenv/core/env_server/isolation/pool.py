"""Pool of the processes in which a server's environments run."""

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from pydantic_core import from_json

from openenv.core.env_server.execution.progress import ProgressListener, current_progress_listener
from openenv.core.env_server.isolation.forkserver import ForkServer
from openenv.core.env_server.isolation.forkserver_config import ForkServerConfig
from openenv.core.env_server.isolation.forkserver_main import kill_group
from openenv.core.env_server.isolation.link import (
    CANCEL,
    LOG,
    RUNNING_SIGNAL,
    Call,
    Link,
    read_answer,
    read_progress,
    read_running,
    write_call,
)
from openenv.core.exceptions import (
    ConfigurationError,
    EnvironmentFactoryError,
    EnvironmentProcessEndedError,
    EnvironmentTimeoutError,
    RequestError,
)
from openenv.core.process_end import how_ended
from openenv.core.wire.results import Outcome, WrittenJson

logger = logging.getLogger(__name__)

# Seconds that a process gets to exit by itself, once its last session has been closed.
_END_GRACE_S = 5.0
# Seconds that a process gets to exit once it has closed its socket; after that it counts as hung.
_EXIT_GRACE_S = 0.5
# Seconds to read the last answers of a process that has ended, where another process holds its socket open.
_LAST_WORDS_S = 1.0
# Seconds in which a process with a late step is to say which component of the reward the step waits for. It can't while
# code in C holds the interpreter.
_RUNNING_S = 1.0


class ProcessPool:
    """Pool of processes: starts them, assigns sessions to them, and ends empty ones.

    Args:
        config: Configuration of the fork server.
        name: Name of the factory, for errors.
        sessions_per_process: Number of sessions that share a process.
    """

    def __init__(self, config: ForkServerConfig, name: str, sessions_per_process: int) -> None:
        self.name = name
        self._config = config
        self._sessions_per_process = sessions_per_process
        self._fork_server: asyncio.Task[ForkServer] | None = None
        self._processes: list[EnvironmentProcess] = []
        self._ending: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator["EnvironmentProcess"]:
        """Iterate over the processes that hold sessions."""
        return iter(list(self._processes))

    async def start(self) -> ForkServer:
        """Start the fork server, so that the first session need not wait for its import.

        Raises:
            ConfigurationError: The environment can't be imported.
        """
        starting = self._fork_server
        if starting is None or (starting.done() and not _is_usable(starting)):
            starting = self._fork_server = asyncio.get_running_loop().create_task(ForkServer.start(self._config))
        return await asyncio.shield(starting)

    async def acquire(self) -> "EnvironmentProcess":
        """Acquire a slot in a process; a process is started if all are full.

        Raises:
            EnvironmentFactoryError: No process could be started.
        """
        process = next((process for process in self._processes if self._has_slot(process)), None)
        if process is None:
            process = EnvironmentProcess(self)
            self._processes.append(process)
        process.add_session()
        try:
            await asyncio.shield(process.starting)
        except (ConfigurationError, OSError) as error:  # OSError where no more files can be opened
            self.release(process)
            raise EnvironmentFactoryError(self.name, f"No process could be started for {self.name}: {error}") from error
        except BaseException:
            self.release(process)
            raise
        return process

    def release(self, process: "EnvironmentProcess") -> None:
        """Release a slot in a process. The process ends with its last session."""
        if process.remove_session() > 0:
            return
        self._processes.remove(process)
        task = asyncio.get_running_loop().create_task(process.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """End all processes; kill those that still hold sessions, whose time to close is over."""
        for process in self:
            process.kill("was ended with the server")
        holding = [process.close() for process in self]
        await asyncio.gather(*holding, *self._ending)
        if self._fork_server is not None:
            await asyncio.wait([self._fork_server])
            if _is_usable(self._fork_server):
                await self._fork_server.result().close()
        self._fork_server = None

    def _has_slot(self, process: "EnvironmentProcess") -> bool:
        return process.ended is None and process.sessions < self._sessions_per_process


def _is_usable(starting: asyncio.Task[ForkServer]) -> bool:
    return starting.done() and not starting.cancelled() and starting.exception() is None and starting.result().alive


class EnvironmentProcess:
    """Process with the environments of one or more sessions.

    Args:
        processes: The pool of this process.

    Attributes:
        sessions: Number of sessions with a slot in the process.
        starting: Task that is done when the process accepts calls.
        ended: How the process ended, or why it was killed; ``None`` until then.
        pid: Id of the process, once it was started.
    """

    def __init__(self, processes: ProcessPool) -> None:
        self.sessions = 0
        self.ended: str | None = None
        self.pid: int | None = None
        self._loop = asyncio.get_running_loop()
        self._link = Link(self._received, self._lost)
        self._exit: asyncio.Future[int | None]
        self._eof = asyncio.Event()
        self._calls: dict[int, asyncio.Future[Outcome | WrittenJson]] = {}
        self._listeners: dict[int, ProgressListener] = {}
        self._time_limits: dict[int, _TimeLimit] = {}
        self._last_number = LOG
        self._is_ending = False
        self.starting = self._loop.create_task(self._start(processes))

    def add_session(self) -> None:
        """Assign a session to the process."""
        self.sessions += 1

    def remove_session(self) -> int:
        """Remove a session from the process; return the number of those left."""
        self.sessions -= 1
        return self.sessions

    async def call(self, call: Call, timeout_s: float | None = None) -> Outcome | WrittenJson:
        """Send a call to a session's environment and return the answer.

        Args:
            call: The call.
            timeout_s: Seconds after which the process is killed.

        Raises:
            EnvironmentProcessEndedError: The process has ended, before or during the call.
            EnvironmentTimeoutError: The call took too long.
            RequestError: The environment raised.
        """
        if self.ended is not None:
            raise EnvironmentProcessEndedError(call.operation, self.ended, may_have_happened=False)
        body = write_call(call)
        self._last_number = number = self._last_number + 1
        answer: asyncio.Future[Outcome | WrittenJson] = self._loop.create_future()
        self._calls[number] = answer
        listener = current_progress_listener()
        if listener is not None:
            self._listeners[number] = listener
        self._link.send(number, body)
        if timeout_s is not None:
            self._time_limits[number] = _TimeLimit(self, answer, call.operation, timeout_s)
        try:
            return await answer
        except asyncio.CancelledError:
            self._link.send(number, CANCEL)
            raise
        except _DiedError as died:
            raise EnvironmentProcessEndedError(call.operation, str(died), may_have_happened=True) from None
        finally:
            del self._calls[number]
            self._listeners.pop(number, None)
            if timeout_s is not None:
                self._time_limits.pop(number).cancel()

    def post(self, call: Call) -> None:
        """Send a call to a session's environment, and ignore the answer."""
        if self.ended is None:
            self._last_number += 1
            self._link.send(self._last_number, write_call(call))

    def request_running(self) -> None:
        """Have the process report which components of rewards its steps wait for."""
        if self.pid is not None and not self._exit.done():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, RUNNING_SIGNAL)

    def kill(self, why: str) -> None:
        """Kill the process and its children. Pending calls fail when it has ended; further calls fail at once."""
        if self.pid is not None and self._exit.done():
            return
        self.ended = self.ended or why
        if self.pid is not None:
            kill_group(self.pid)

    async def close(self) -> None:
        """Wait for the process to exit, or kill it after a grace period."""
        await asyncio.wait([self.starting])
        if self.starting.exception() is not None:
            return
        self._is_ending = True
        self._link.close()
        await asyncio.wait([self._exit], timeout=_END_GRACE_S)
        self.kill("did not end by itself")
        await self._watching

    async def _start(self, processes: ProcessPool) -> None:
        fork_server = await processes.start()
        self.pid, connection, self._exit = await fork_server.fork(processes.name)
        await self._loop.create_unix_connection(lambda: self._link, sock=connection)
        self._watching = self._loop.create_task(self._watch())

    async def _watch(self) -> None:
        status = await asyncio.shield(self._exit)
        how = how_ended(status)
        try:
            async with asyncio.timeout(_LAST_WORDS_S):
                await self._eof.wait()
        except TimeoutError:
            logger.debug("process %s has ended, but something that it started holds its socket", self.pid)
        self._link.abort()
        self.ended = self.ended or how
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(_DiedError(self.ended))

    def _received(self, number: int, body: bytes) -> None:
        try:
            if number == LOG:
                name, level, text = from_json(body)
                logging.getLogger(name).log(level, "%s", text)
            elif number in self._listeners and (progress := read_progress(body)) is not None:
                self._listeners[number](*progress)
            elif number in self._time_limits and (component := read_running(body)) is not None:
                self._time_limits[number].report(component)
            elif number in self._calls:
                self._answered(self._calls[number], body)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            logger.error("process %s sent an invalid answer: %s", self.pid, error)
            self.kill("sent an invalid answer")

    def _answered(self, answer: "asyncio.Future[Outcome | WrittenJson]", body: bytes) -> None:
        try:
            result = read_answer(body)
        except RequestError as error:
            if not answer.done():
                answer.set_exception(error)
            return
        if not answer.done():
            answer.set_result(result)

    def _lost(self) -> None:
        """Handle the end of the connection: the process has ended, or accepts no more calls."""
        self._eof.set()
        if not self._is_ending and not self._exit.done():
            self._loop.call_later(_EXIT_GRACE_S, self.kill, "closed its connection to the server")


class _TimeLimit:
    """Time limit of a call to a process, which is killed when the limit is exceeded.

    Args:
        process: The process.
        answer: The answer to the call.
        operation: The call's operation.
        timeout_s: The limit in seconds.
    """

    def __init__(
        self, process: EnvironmentProcess, answer: "asyncio.Future[Any]", operation: str, timeout_s: float
    ) -> None:
        self._process = process
        self._answer = answer
        self._operation = operation
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._has_expired = False
        self._timer = self._loop.call_later(timeout_s, self._expire if operation == "step" else self.fail)

    def cancel(self) -> None:
        """Cancel the limit, when the call has ended."""
        self._timer.cancel()

    def report(self, component: str) -> None:
        """End the call if its limit is exceeded: a process reports all of its steps, those of other sessions too.

        Args:
            component: As for ``fail``.
        """
        if self._has_expired:
            self.fail(component)

    def fail(self, component: str = "") -> None:
        """End the call with an error, and the process.

        Args:
            component: Path of the component of the reward that the step waits for; empty if there is none.
        """
        if self._answer.done():
            return
        late = f"{self._operation} did not finish within {self._timeout_s:g} s"
        error = EnvironmentTimeoutError(
            self._operation,
            self._timeout_s,
            f"{late}, so its process was ended. A reset starts a new episode in a new process.",
        )
        if component:
            error.blame_component(component)
        self._answer.set_exception(error)
        self._process.kill(f"was ended because the {late} in another session")

    def _expire(self) -> None:
        """End the call when the process has reported what the step waits for, or soon."""
        self._has_expired = True
        self._timer = self._loop.call_later(_RUNNING_S, self.fail)
        self._process.request_running()


class _DiedError(Exception):
    """Raised when a process has ended; the text says how."""
