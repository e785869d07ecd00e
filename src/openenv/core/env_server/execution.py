"""Where an environment's code runs.

A class whose calls take microseconds (``BLOCKING = False``) runs inline, on the event loop. Any other gets a thread of
its own for each session, in which it is made, called and closed, so that libraries bound to a thread work and a slow
environment holds up nobody else. Methods declared ``async`` are awaited on the loop in either case.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from queue import SimpleQueue
from threading import Thread
from typing import Any

from openenv.core.env_server.environment_types import EnvironmentFactory, EnvironmentMethod, environment_method
from openenv.core.exceptions import (
    EnvironmentFactoryError,
    EnvironmentFailedError,
    EnvironmentTimeoutError,
    RequestError,
)

logger = logging.getLogger(__name__)


class Place(ABC):
    """Somewhere that runs the plain calls of one environment, one after another."""

    @abstractmethod
    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a function and return what it returns, or raise what it raises."""

    @abstractmethod
    def leave(self) -> None:
        """Take no more calls; those already given are still run."""


class InlinePlace(Place):
    """The event loop itself."""

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run it here and now."""
        return function(*args, **kwargs)

    def leave(self) -> None:
        """There is nothing to give up."""


class ThreadPlace(Place):
    """One thread, started with the first call.

    A thread pool's futures cost some 20 µs a call more than this queue does, and a pool promises no one thread.
    The thread is a daemon: an environment that hangs for ever must not keep the server from ending.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._started = False

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run it in the thread, after the calls given before."""
        if not self._started:
            self._started = True
            self._thread.start()
        call = _Call(asyncio.get_running_loop(), function, args, kwargs)
        self._calls.put(call)
        return await call.answer

    def leave(self) -> None:
        """End the thread once its calls are done."""
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call.run()


class SharedThreadPlace(ThreadPlace):
    """One thread for the environments of every session."""

    def leave(self) -> None:
        """The other sessions still use it."""

    def end(self) -> None:
        """End the thread once its calls are done."""
        super().leave()


def place_for(environment_class: type | None, name: str) -> Place:
    """Choose where a class's instances run, each in a place of its own.

    Args:
        environment_class: The class; ``None`` where only its factory is known, which gets a thread.
        name: Name for the thread.
    """
    if environment_class is not None and not getattr(environment_class, "BLOCKING", True):
        return InlinePlace()
    return ThreadPlace(name)


class _Call:
    """One call on its way through a thread."""

    __slots__ = ("_args", "_function", "_kwargs", "_loop", "answer")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]
    ) -> None:
        self.answer: asyncio.Future[Any] = loop.create_future()
        self._loop = loop
        self._function = function
        self._args = args
        self._kwargs = kwargs

    def run(self) -> None:
        try:
            result, error = self._function(*self._args, **self._kwargs), None
        except BaseException as raised:  # noqa: BLE001  # it belongs to the awaiting side, whatever it is
            result, error = None, raised
        try:
            self._loop.call_soon_threadsafe(self._settle, result, error)
        except RuntimeError:  # the server ended while the call ran; nobody waits for it
            logger.debug("a call finished after its event loop had closed")

    def _settle(self, result: Any, error: BaseException | None) -> None:
        if self.answer.done():  # given up at its timeout
            return
        if error is None:
            self.answer.set_result(result)
        else:
            self.answer.set_exception(_Raised(error))


class _Raised(Exception):  # noqa: N818  # a parcel, not an error
    """Carries any exception through a future, which itself refuses StopIteration."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(error)


class Runner:
    """One environment, called where it wants to be called, its exceptions turned into typed errors.

    Args:
        environment: The instance.
        place: Where its plain methods run.
        keep: Whether ``close`` leaves the instance alone, because other sessions use it too.
    """

    def __init__(self, environment: Any, place: Place, *, keep: bool = False) -> None:
        self.environment = environment
        self._place = place
        self._keep = keep
        environment_class: type = type(environment)
        self._reset = environment_method(environment_class, "reset")
        self._step = environment_method(environment_class, "step")

    @classmethod
    async def make(cls, factory: EnvironmentFactory, place: Place) -> "Runner":
        """Make an environment in the place where it will live.

        Raises:
            EnvironmentFactoryError: The factory raised.
        """
        try:
            environment = await _answered(place.run(factory.make), "factory", None)
        except RequestError as error:
            place.leave()
            raise EnvironmentFactoryError(factory.name) from error
        return cls(environment, place, keep=factory.shared is not None)

    async def reset(self, arguments: Mapping[str, Any], timeout_s: float | None = None) -> Any:
        """Call ``reset`` with those of the arguments that it accepts, and return what it returns."""
        return await _answered(self._call(self._reset, (), arguments), "reset", timeout_s)

    async def step(self, action: Any, options: Mapping[str, Any], timeout_s: float | None = None) -> Any:
        """Call ``step`` with the action and those of the options that it accepts, and return what it returns."""
        return await _answered(self._call(self._step, (action,), options), "step", timeout_s)

    async def state(self) -> Any:
        """Read the state, which may be a property or a method."""
        return await _answered(self._place.run(self._read_state), "state", None)

    async def metadata(self) -> Any:
        """Ask the environment what it is."""
        return await _answered(self._place.run(self.environment.get_metadata), "get_metadata", None)

    async def close(self) -> None:
        """Close the environment and give up its place. What ``close`` raises is logged: there is nobody to tell."""
        if self._keep:
            return
        try:
            closing = await _answered(self._place.run(self.environment.close), "close", None)
            if isawaitable(closing):
                await _answered(closing, "close", None)
        except RequestError:
            logger.debug("the environment did not close cleanly")  # _failure has logged the cause
        finally:
            self._place.leave()

    def _call(self, method: EnvironmentMethod, args: tuple[Any, ...], values: Mapping[str, Any]) -> Awaitable[Any]:
        if values and method.arguments is not None:
            values = {name: value for name, value in values.items() if name in method.arguments}
        function = getattr(self.environment, method.name)
        return function(*args, **values) if method.awaited else self._place.run(function, *args, **values)

    def _read_state(self) -> Any:
        state = self.environment.state
        return state() if callable(state) else state


async def _answered(call: Awaitable[Any], operation: str, timeout_s: float | None) -> Any:
    """Await a call of the environment's code; whatever it raises becomes a ``RequestError``."""
    try:
        if timeout_s is None:
            return await call
        return await _within(call, operation, timeout_s)
    except RequestError:
        raise
    except _Raised as parcel:
        raise _failure(parcel.error, operation) from parcel.error
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        # An environment that runs inline may call sys.exit(); it must not take the server with it.
        raise _failure(error, operation) from error


async def _within(call: Awaitable[Any], operation: str, timeout_s: float) -> Any:
    timer = asyncio.timeout(timeout_s)
    try:
        async with timer:
            return await call
    except TimeoutError:
        if timer.expired():
            raise EnvironmentTimeoutError(operation, timeout_s) from None
        raise


def _failure(error: BaseException, operation: str) -> RequestError:
    if isinstance(error, RequestError):
        return error
    logger.error("%s of an environment raised", operation, exc_info=error)
    return EnvironmentFailedError(str(error) or type(error).__name__)
