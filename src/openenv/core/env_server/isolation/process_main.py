"""Process that runs the environments of one or more sessions, as the server does without isolation."""

import asyncio
import faulthandler
import logging
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

from pydantic_core import to_json

from openenv.core.env_server.execution.executors import executor_for, shared_executor_for
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.execution.local_runner import LocalRunner
from openenv.core.env_server.execution.measured_runner import make_runner
from openenv.core.env_server.execution.progress import progress_listener
from openenv.core.env_server.execution.runner import finished
from openenv.core.env_server.isolation.link import (
    CANCEL,
    LOG,
    RUNNING_SIGNAL,
    Call,
    Link,
    read_call,
    write_error,
    write_outcome,
    write_progress,
    write_running,
    write_value,
)
from openenv.core.event_loop import new_event_loop
from openenv.core.exceptions import EnvironmentFailedError, RequestError
from openenv.core.wire.answers import picture_json, state_json
from openenv.core.wire.errors import error_json
from openenv.core.wire.results import Outcome, outcome_of
from openenv.core.wire.types import EnvironmentMetadata

logger = logging.getLogger(__name__)

# Seconds that environments get to close when the server has ended.
_CLOSE_TIMEOUT_S = 4.0


def serve_sessions(connection: socket.socket, factory: EnvironmentFactory, log_level: int) -> None:
    """Run environments for a server until it closes the connection.

    Args:
        connection: Socket to the server.
        factory: Makes the environments.
        log_level: Lowest level of the log records that are sent to the server.
    """
    faulthandler.enable()
    _reseed_numpy()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(connection, factory, log_level))


async def _serve(connection: socket.socket, factory: EnvironmentFactory, log_level: int) -> None:
    worker = Worker(factory)
    await asyncio.get_running_loop().create_unix_connection(lambda: worker.link, sock=connection)
    signal.signal(RUNNING_SIGNAL, worker.report_running)
    logging.basicConfig(level=log_level, handlers=[_ServerLog(worker.link)], force=True)
    await worker.ended.wait()
    await worker.close()


class Worker:
    """Environments of one process, by the numbers of their sessions.

    Args:
        factory: Makes the environments.

    Attributes:
        link: The connection to the server.
        ended: Set when the server has closed the connection.
    """

    def __init__(self, factory: EnvironmentFactory) -> None:
        self.link = Link(self._received, self._lost)
        self.ended = asyncio.Event()
        self._factory = factory
        self._shared_executor = shared_executor_for(factory)
        self._runners: dict[int, LocalRunner] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._steps: dict[int, LocalRunner] = {}

    async def close(self) -> None:
        """Close the remaining environments."""
        closing = [asyncio.ensure_future(runner.close()) for runner in self._runners.values()]
        if closing:
            await asyncio.wait(closing, timeout=_CLOSE_TIMEOUT_S)

    def report_running(self, *_: Any) -> None:
        """Send which components of rewards the steps under way wait for: a signal handler, since the loop may hang."""
        # A thread may add to a rubric meanwhile; that must not end what the signal interrupts.
        with suppress(RuntimeError):
            steps = [(number, write_running(runner.running_component)) for number, runner in self._steps.items()]
            self.link.send_at_once(steps)

    def _lost(self) -> None:
        self.ended.set()

    def _received(self, number: int, body: bytes) -> None:
        if body != CANCEL:
            self._tasks[number] = asyncio.get_running_loop().create_task(self._answer(number, body))
        elif number in self._tasks:
            self._tasks[number].cancel()

    async def _answer(self, number: int, body: bytes) -> None:
        try:
            call = read_call(body)
            with nullcontext() if call.spans is None else call.spans.attached():
                answer = await self._execute(call, number)
        except RequestError as error:
            answer = write_error(error)
        except Exception as error:  # a fault of this module; without an answer the server would wait for ever
            logger.exception("a call could not be answered")
            answer = write_error(EnvironmentFailedError(type(error).__name__))
        finally:
            del self._tasks[number]
        self.link.send(number, answer)

    async def _execute(self, call: Call, number: int) -> bytes:
        if call.operation == "open":
            return await self._open(call.session)
        if call.operation == "close":
            return await self._close(call.session)
        runner = self._runners[call.session]
        match call.operation:
            case "step":
                return await self._step(runner, number, *call.arguments)
            case "reset":
                return write_outcome(_outcome(runner, "reset", await finished(runner.reset(*call.arguments))))
            case "state" | "render" | "metadata":
                return write_value(await _shown(runner, call.operation))
            case "render_web":
                return write_value(picture_json(await runner.render_web(*call.arguments)))
            case "snapshot":
                return write_value((await runner.snapshot(*call.arguments)).to_json())
            case "restore":
                await runner.restore(*call.arguments)
                return write_value("null")
            case "tasks":
                return write_value((await runner.tasks(*call.arguments)).text)
        raise AssertionError(f"unknown operation {call.operation}")

    async def _step(
        self, runner: LocalRunner, number: int, action: Any, options: Mapping[str, Any], reports: bool = False
    ) -> bytes:
        self._steps[number] = runner
        try:
            with progress_listener(partial(self._report, number)) if reports else nullcontext():
                return write_outcome(_outcome(runner, "step", await finished(runner.step(action, options))))
        finally:
            del self._steps[number]

    def _report(self, number: int, fraction: float, message: str) -> None:
        if number in self._tasks:  # a thread may still report the progress of a cancelled call
            self.link.send(number, write_progress(fraction, message))

    async def _open(self, session: int) -> bytes:
        executor = self._shared_executor or executor_for(self._factory.environment_class, self._factory.name)
        runner = await make_runner(self._factory, executor)
        self._runners[session] = runner
        about: Mapping[str, Any] = {
            "name": runner.environment_name,
            "requires_reset": runner.requires_reset,
            "can_snapshot": runner.can_snapshot,
            "has_state": runner.has_state,
            "offers_tools": runner.offers_tools,
            "tool_names": sorted(runner.tool_names),
            "reset_names": runner.reset_names,
            "step_names": runner.step_names,
            "supports_concurrent_sessions": runner.supports_concurrent_sessions,
        }
        return write_value(error_json(about))

    async def _close(self, session: int) -> bytes:
        runner = self._runners.pop(session, None)
        if runner is not None:
            await runner.close()
        return write_value("null")


class _ServerLog(logging.Handler):
    """Log handler that sends records to the server, which has the log's settings."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link
        self._loop = asyncio.get_running_loop()
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = error_json([record.name, record.levelno, self.format(record)])
            self._loop.call_soon_threadsafe(self._link.send, LOG, text.encode())
        except Exception:  # noqa: BLE001  # as in every handler: a bad record must not stop the code that logs
            self.handleError(record)


def _outcome(runner: LocalRunner, operation: str, returned: Any) -> Outcome:
    """Convert the environment's return value to an ``Outcome``; an unexpected value is logged."""
    try:
        return outcome_of(returned)
    except RequestError as error:
        logger.error("%s.%s: %s", runner.environment_name, operation, error.message)
        raise


async def _shown(runner: LocalRunner, operation: str) -> str:
    """Return the JSON of ``state``, ``render`` or ``metadata``."""
    if operation == "state":
        return state_json(await runner.state())
    if operation == "render":
        return picture_json(await runner.render())
    return _metadata_json(await runner.metadata())


def _metadata_json(metadata: Any) -> str:
    """Return an environment's metadata as JSON: of a class of the author's, only the fields of the answer."""
    try:
        if isinstance(metadata, EnvironmentMetadata):
            return EnvironmentMetadata.__pydantic_serializer__.to_json(metadata, warnings=False).decode()
        return to_json(metadata, inf_nan_mode="null").decode()
    except (ValueError, TypeError) as error:
        raise EnvironmentFailedError(f"The metadata cannot be sent as JSON: {error}") from error


def _reseed_numpy() -> None:
    """Reseed NumPy's global generator, whose state a fork inherits from the fork server; Python reseeds its own."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()
