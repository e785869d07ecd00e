"""Executors of an environment's plain methods: on the event loop, or in a thread.

A class whose calls take microseconds (``BLOCKING = False``) runs inline, on the event loop. Any other class runs in one
thread for each session, which creates, calls and closes the environment, so that libraries bound to a thread work and a
slow environment does not block other sessions.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from queue import SimpleQueue
from threading import Thread
from types import CoroutineType
from typing import Any

from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.telemetry import SpanContext

logger = logging.getLogger(__name__)


class Executor(ABC):
    """Executor of the plain calls of one environment, one after another."""

    @abstractmethod
    def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Call a function.

        Returns:
            An awaitable of the function's result. Exceptions arrive as ``Raised``.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the executor; calls already submitted still run."""


class InlineExecutor(Executor):
    """Executor on the event loop."""

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call the function at once."""
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            raise Raised(error) from error

    def close(self) -> None:
        """Do nothing: there is no thread to end."""


class ThreadExecutor(Executor):
    """Executor with one thread, started with the first call.

    A thread pool's futures cost some 20 µs a call more than this queue does, and a pool does not promise one thread.
    The thread is a daemon: an environment that hangs for ever must not keep the server from ending.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[_Call | None] | None = None  # while the thread runs
        self._is_closed = False

    def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Call the function in the thread, after the calls submitted before.

        Raises:
            RuntimeError: The executor is closed.
        """
        if self._is_closed:  # a thread that started now would never end
            raise RuntimeError(f"Expected no call of the environment in {self._name!r}: its thread has ended.")
        if self._calls is None:
            self._calls = SimpleQueue()
            Thread(target=_work, args=(self._calls,), name=self._name, daemon=True).start()
        call = _Call(asyncio.get_running_loop(), function, args, kwargs)
        self._calls.put(call)
        return call.answer

    def close(self) -> None:
        """End the thread once its calls are done."""
        self._is_closed = True
        self._end_thread()

    def _end_thread(self) -> None:
        if self._calls is not None:
            self._calls.put(None)
            self._calls = None


class SharedThreadExecutor(ThreadExecutor):
    """Executor with one thread for the environments of all sessions."""

    def close(self) -> None:
        """Do nothing: other sessions still use the thread."""

    def shut_down(self) -> None:
        """End the thread once its calls are done, when the server ends; a server that starts again has another."""
        self._end_thread()


def executor_for(environment_class: type | None, name: str) -> Executor:
    """Create the executor for one instance of a class.

    Args:
        environment_class: The class; ``None`` where only the factory is known: then the executor is a thread.
        name: Name for the thread.
    """
    if environment_class is not None and not getattr(environment_class, "BLOCKING", True):
        return InlineExecutor()
    return ThreadExecutor(name)


def shared_executor_for(factory: EnvironmentFactory) -> SharedThreadExecutor | None:
    """Create the executor that all environments of a factory share; ``None`` where each can have its own."""
    single_thread = getattr(factory.environment_class, "REQUIRES_SINGLE_THREAD_EXECUTOR", False)
    if single_thread or factory.shared is not None:
        return SharedThreadExecutor(f"{factory.name}-shared")
    return None


def _work(calls: "SimpleQueue[_Call | None]") -> None:
    while (call := calls.get()) is not None:
        call.run()


class _Call:
    """Call that waits or runs in a thread."""

    __slots__ = ("_args", "_function", "_kwargs", "_loop", "_spans", "answer")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]
    ) -> None:
        self.answer: asyncio.Future[Any] = loop.create_future()
        self._loop = loop
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._spans = SpanContext.current()

    def run(self) -> None:
        if self.answer.done():  # cancelled while it waited behind another call
            return
        result, error = None, None
        try:
            with nullcontext() if self._spans is None else self._spans.attached():
                result = self._function(*self._args, **self._kwargs)
        except BaseException as raised:  # noqa: BLE001  # every exception belongs to the awaiting side
            error = Raised(raised)
        try:
            self._loop.call_soon_threadsafe(self._settle, result, error)
        except RuntimeError:  # the server ended while the call ran; no task awaits the call
            logger.debug("a call finished after its event loop had closed")
            _close(result)

    def _settle(self, result: Any, error: "Raised | None") -> None:
        if self.answer.done():  # cancelled at its timeout
            _close(result)
            return
        if error is None:
            self.answer.set_result(result)
        else:
            self.answer.set_exception(error)


def discard(answer: Awaitable[Any]) -> None:
    """Close the coroutine that a call returned, if any: the task that was to await it has been cancelled.

    Args:
        answer: Return value of ``Executor.run``.
    """
    if isinstance(answer, asyncio.Future) and answer.done() and not answer.cancelled() and answer.exception() is None:
        _close(answer.result())


def _close(result: Any) -> None:
    if isinstance(result, CoroutineType):
        result.close()


class Raised(Exception):  # noqa: N818  # a wrapper, not an error
    """Wrapper that carries an environment's exception, even a ``CancelledError``, through coroutines."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(error)
