"""Where an environment's code runs.

A class whose calls take microseconds (``BLOCKING = False``) runs inline, on the event loop. Any other gets a thread of
its own for each session, in which it is made, called and closed, so that libraries bound to a thread work and a slow
environment holds up nobody else. Methods declared ``async`` are awaited on the loop in either case.
"""

import asyncio
import copy
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from inspect import isawaitable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeAlias

from pydantic import BaseModel

from openenv.core.env_server.disclosure import message_of, origin_of
from openenv.core.env_server.environment_types import (
    EnvironmentFactory,
    EnvironmentMethod,
    environment_method,
    has_snapshots,
    looks_like_environment,
)
from openenv.core.env_server.outcomes import WrittenJson
from openenv.core.env_server.pictures import Picture, picture_of
from openenv.core.env_server.reset_parameters import reset_parameters
from openenv.core.env_server.snapshots import Snapshot
from openenv.core.env_server.tasks import TaskQuestion, ask
from openenv.core.env_server.tools import class_tools
from openenv.core.exceptions import (
    EnvironmentFactoryError,
    EnvironmentFailedError,
    EnvironmentTimeoutError,
    RequestError,
)

logger = logging.getLogger(__name__)

# What most calls return, and nobody has to await.
FINAL = (BaseModel, tuple)

ProgressListener: TypeAlias = Callable[[float, str], object]
"""Called on the event loop with the fraction that is done, from 0 to 1, and what is being done."""


class Place(ABC):
    """Somewhere that runs the plain calls of one environment, one after another."""

    @abstractmethod
    def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Run a function.

        Returns:
            What to await for its result. Whatever it raises comes as ``Raised``.
        """

    @abstractmethod
    def leave(self) -> None:
        """Take no more calls; those already given are still run."""


class InlinePlace(Place):
    """The event loop itself."""

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run it here and now."""
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            raise Raised(error) from error

    def leave(self) -> None:
        """There is nothing to give up."""


class ThreadPlace(Place):
    """One thread, started with the first call.

    A thread pool's futures cost some 20 µs a call more than this queue does, and a pool promises no one thread.
    The thread is a daemon: an environment that hangs for ever must not keep the server from ending.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[_Call | None] | None = None

    def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Run it in the thread, after the calls given before."""
        if self._calls is None:
            self._calls = SimpleQueue()
            Thread(target=_work, args=(self._calls,), name=self._name, daemon=True).start()
        call = _Call(asyncio.get_running_loop(), function, args, kwargs)
        self._calls.put(call)
        return call.answer

    def leave(self) -> None:
        """End the thread once its calls are done. A further call would start another one."""
        if self._calls is not None:
            self._calls.put(None)
            self._calls = None


class SharedThreadPlace(ThreadPlace):
    """One thread for the environments of every session."""

    def leave(self) -> None:
        """The other sessions still use it."""

    def end(self) -> None:
        """End the thread once its calls are done; the server ends."""
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


def shared_place_for(factory: EnvironmentFactory) -> SharedThreadPlace | None:
    """Make the one place for all of a factory's environments, where they can't have a place each."""
    single_thread = getattr(factory.environment_class, "REQUIRES_SINGLE_THREAD_EXECUTOR", False)
    if single_thread or factory.shared is not None:
        return SharedThreadPlace(f"{factory.name}-shared")
    return None


def _work(calls: "SimpleQueue[_Call | None]") -> None:
    while (call := calls.get()) is not None:
        call.run()


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
        if self.answer.done():  # given up while it waited behind another call
            return
        result, error = None, None
        try:
            result = self._function(*self._args, **self._kwargs)
        except BaseException as raised:  # noqa: BLE001  # it belongs to the awaiting side, whatever it is
            error = Raised(raised)
        try:
            self._loop.call_soon_threadsafe(self._settle, result, error)
        except RuntimeError:  # the server ended while the call ran; nobody waits for it
            logger.debug("a call finished after its event loop had closed")

    def _settle(self, result: Any, error: "Raised | None") -> None:
        if self.answer.done():  # given up at its timeout
            return
        if error is None:
            self.answer.set_result(result)
        else:
            self.answer.set_exception(error)


class Raised(Exception):  # noqa: N818  # a parcel, not an error
    """Carries whatever an environment raised, ``CancelledError`` and ``StopIteration`` included, through coroutines."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(error)


class _FromAnyThread:
    """Has a listener called on the event loop, whoever calls this."""

    def __init__(self, loop: asyncio.AbstractEventLoop, listener: ProgressListener) -> None:
        self._loop = loop
        self._listener = listener

    def __call__(self, fraction: float, message: str) -> None:
        self._loop.call_soon_threadsafe(self._tell, fraction, message)

    def _tell(self, fraction: float, message: str) -> None:
        self._listener(fraction, message)


class Runner:
    """One environment, called where it wants to be called, its exceptions turned into typed errors.

    Args:
        environment: The instance.
        place: Where its plain methods run.
        keep: Whether ``close`` leaves the instance alone, because other sessions use it too.

    Attributes:
        inline: Whether ``reset`` and ``step`` can be called on the event loop at once.
        can_snapshot: Whether the environment has ``snapshot`` and ``restore``.
        offers_tools: Whether ``step`` takes the actions that list and call tools.
        tool_names: Names of the tools of the environment's class.
        reset_names: Names of the parameters of ``reset``; ``None`` where it takes any.
        step_names: Names of the options of ``step``, beside the action; ``None`` where it takes any.
        session_name: What its session is called in the log, once it has one.
    """

    def __init__(self, environment: Any, place: Place, *, keep: bool = False) -> None:
        self.environment = environment
        self.session_name: str | None = None
        self._place = place
        self._keep = keep
        environment_class: type = type(environment)
        self._reset = environment_method(environment_class, "reset")
        self._step = environment_method(environment_class, "step")
        self._reset_parameters = reset_parameters(environment_class)
        self.reset_names = self._reset_parameters.names
        self.step_names = None if self._step.arguments is None else tuple(sorted(self._step.arguments))
        self.inline = isinstance(place, InlinePlace) and not (self._reset.awaited or self._step.awaited)
        self._plain_step = getattr(environment, self._step.name)
        self.can_snapshot = has_snapshots(environment_class)
        self.offers_tools = bool(getattr(environment_class, "OFFERS_TOOLS", False))
        self.tool_names = frozenset(class_tools(environment_class))

    @property
    def environment_name(self) -> str:
        """Name of the environment's class."""
        return type(self.environment).__name__

    @property
    def requires_reset(self) -> bool:
        """Whether a step before the first reset, or after the end of an episode, is to be refused."""
        return bool(getattr(type(self.environment), "REQUIRES_RESET", True))

    @property
    def supports_concurrent_sessions(self) -> bool:
        """Whether the environment shares nothing with others of its class."""
        return bool(getattr(type(self.environment), "SUPPORTS_CONCURRENT_SESSIONS", False))

    @classmethod
    async def make(cls, factory: EnvironmentFactory, place: Place) -> "Runner":
        """Make an environment in the place where it will live.

        Raises:
            EnvironmentFactoryError: The factory raised, or made something else than an environment.
        """
        made: list[Any] = []
        try:
            await _answered(None, "factory", None, place.run, _make_into, made, factory)
        except RequestError as error:
            place.leave()
            raise EnvironmentFactoryError(factory.name, origin=error.origin or error.message) from error
        except asyncio.CancelledError:  # whoever wanted it has gone, while its thread may still be making it
            place.run(_close_made, made, factory)
            place.leave()
            raise
        if not looks_like_environment(made[0]):
            place.leave()
            raise EnvironmentFactoryError(
                factory.name,
                f"Environment factory '{factory.name}' failed to create instance: expected an object with reset, step "
                f"and state, got {type(made[0]).__name__}.",
            )
        return cls(made[0], place, keep=factory.shared is not None)

    async def reset(self, arguments: Mapping[str, Any], timeout_s: float | None = None) -> Any:
        """Call ``reset`` with those of the arguments that it accepts, and return what it returns.

        Raises:
            InvalidRequestError: An argument has not the type that the signature names.
        """
        checked = self._reset_parameters.checked(arguments)
        return await _answered(self.session_name, "reset", timeout_s, self._call, self._reset, (), checked)

    async def step(
        self,
        action: Any,
        options: Mapping[str, Any],
        timeout_s: float | None = None,
        on_progress: ProgressListener | None = None,
    ) -> Any:
        """Call ``step`` with the action and those of the options that it accepts, and return what it returns."""
        listener = None if on_progress is None else _FromAnyThread(asyncio.get_running_loop(), on_progress)
        try:
            return await _answered(
                self.session_name, "step", timeout_s, self._call, self._step, (action,), options, listener
            )
        finally:
            if listener is not None and getattr(self.environment, "_progress_listener", None) is listener:
                self.environment._progress_listener = None

    def reset_now(self, arguments: Mapping[str, Any]) -> Any:
        """As ``reset``, at once; only where the runner is ``inline``. Something to await is returned as it is."""
        return self._call_now("reset", self._reset, (), self._reset_parameters.checked(arguments))

    def step_now(self, action: Any, options: Mapping[str, Any]) -> Any:
        """As ``step``, at once; only where the runner is ``inline``. Something to await is returned as it is."""
        if options:
            return self._call_now("step", self._step, (action,), options)
        try:
            return self._plain_step(action)
        except BaseException as error:
            raise _failure(error, "step", self.session_name) from error

    async def finish(self, operation: str, result: Any, timeout_s: float | None = None) -> Any:
        """Await what ``reset_now`` or ``step_now`` returned."""
        return await _answered(self.session_name, operation, timeout_s, _resolved, result)

    async def state(self, timeout_s: float | None = None) -> Any:
        """Read the state, which may be a property or a method."""
        return await _answered(self.session_name, "state", timeout_s, self._place.run, _read_state, self.environment)

    async def render(self, timeout_s: float | None = None) -> Picture | None:
        """Have the environment show where it stands; ``None`` where there is nothing to see."""
        name = self.session_name
        picture: Picture | None = await _answered(name, "render", timeout_s, self._place.run, _draw, self.environment)
        return picture

    async def metadata(self, timeout_s: float | None = None) -> Any:
        """Ask the environment what it is."""
        name = self.session_name
        return await _answered(name, "get_metadata", timeout_s, self._place.run, _read_metadata, self.environment)

    async def tasks(self, question: TaskQuestion, timeout_s: float | None = None) -> WrittenJson:
        """Ask the environment about its tasks.

        Raises:
            TasksUnsupportedError: It does not answer such questions.
            TaskNotFoundError: It has no such task.
        """
        name = self.session_name
        run = self._place.run
        return WrittenJson(await _answered(name, question.method, timeout_s, run, ask, self.environment, question))

    async def snapshot(self, timeout_s: float | None = None) -> Snapshot:
        """Take a snapshot; only where ``can_snapshot`` holds."""
        name = self.session_name
        take = _read_snapshot if isinstance(self._place, InlinePlace) else _take_snapshot
        taken = await _answered(name, "snapshot", timeout_s, self._place.run, take, self.environment)
        return taken if isinstance(taken, Snapshot) else await Snapshot.of_in_turns(taken)

    async def restore(self, snapshot: Snapshot, timeout_s: float | None = None) -> None:
        """Have the environment take up a snapshot; only where ``can_snapshot`` holds."""
        name = self.session_name
        await _answered(name, "restore", timeout_s, self._place.run, _restore_snapshot, self.environment, snapshot)

    async def copy(self, place: Place, timeout_s: float | None = None) -> "Runner":
        """Copy the environment with ``copy.deepcopy``, to live in another place.

        This runs in its own place or, if that is the event loop, in a thread: whatever calls take, a copy takes as long
        as the state is large, and while it is made nobody else calls the environment.

        Raises:
            EnvironmentFailedError: It can't be copied.
        """
        run = _in_thread if isinstance(self._place, InlinePlace) else self._place.run
        copies: list[Any] = []
        try:
            name = self.session_name
            await _answered(name, "deepcopy", timeout_s, run, _copy_into, copies, self.environment)
            if isinstance(copies[0], Exception):
                raise EnvironmentFailedError(f"copy.deepcopy raised {_described(copies[0])}") from copies[0]
        except BaseException:
            place.leave()
            raise
        return Runner(copies[0], place)

    async def close(self) -> None:
        """Close the environment and give up its place. What ``close`` raises is logged: there is nobody to tell."""
        if self._keep:
            return
        try:
            await _answered(self.session_name, "close", None, self._place.run, self.environment.close)
        except RequestError:
            logger.debug("the environment did not close cleanly")  # _failure has logged the cause
        finally:
            self._place.leave()

    def _call_now(
        self, operation: str, method: EnvironmentMethod, args: tuple[Any, ...], values: Mapping[str, Any]
    ) -> Any:
        try:
            return getattr(self.environment, method.name)(*args, **_accepted(method, values))
        except BaseException as error:
            raise _failure(error, operation, self.session_name) from error

    def _call(
        self,
        method: EnvironmentMethod,
        args: tuple[Any, ...],
        values: Mapping[str, Any],
        listener: _FromAnyThread | None = None,
    ) -> Awaitable[Any]:
        values = _accepted(method, values)
        function = getattr(self.environment, method.name)
        if listener is not None:
            function = partial(_listened_to, self.environment, listener, function)
        if method.awaited:
            awaited: Awaitable[Any] = function(*args, **values)
            return awaited
        return self._place.run(function, *args, **values)


def _accepted(method: EnvironmentMethod, values: Mapping[str, Any]) -> Mapping[str, Any]:
    if not values or method.arguments is None:
        return values
    return {name: value for name, value in values.items() if name in method.arguments}


def _listened_to(
    environment: Any, listener: _FromAnyThread, function: Callable[..., Any], *args: Any, **values: Any
) -> Any:
    """Call a method that may report progress; not before it is its turn, since one given up may still be at work."""
    environment._progress_listener = listener
    return function(*args, **values)


def _make_into(made: list[Any], factory: EnvironmentFactory) -> None:
    made.append(factory.make())


def _close_made(made: list[Any], factory: EnvironmentFactory) -> None:
    if made and factory.shared is None:
        made[0].close()


def _read_metadata(environment: Any) -> Any:
    return environment.get_metadata()


def _draw(environment: Any) -> Picture | None:
    return picture_of(environment.render())


def _read_snapshot(environment: Any) -> Any:
    return environment.snapshot()


def _take_snapshot(environment: Any) -> Any:
    taken = environment.snapshot()
    return taken if isawaitable(taken) else Snapshot.of(taken)


def _restore_snapshot(environment: Any, snapshot: Snapshot) -> Any:
    return environment.restore(snapshot.value())


async def _in_thread(function: Callable[..., Any], *args: Any) -> Any:
    return await asyncio.to_thread(function, *args)


def _copy_into(copies: list[Any], environment: Any) -> None:
    """Copy an environment. Many can't be copied, which is no fault of theirs and not for the log."""
    try:
        copies.append(copy.deepcopy(environment))
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what the caller wants to know
        copies.append(error)


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {message_of(error)}"


def _read_state(environment: Any) -> Any:
    state = environment.state
    return state() if callable(state) else state


async def _answered(
    session_name: str | None,
    operation: str,
    timeout_s: float | None,
    start: Callable[..., Awaitable[Any]],
    /,
    *args: Any,
) -> Any:
    """Start a call of the environment's code and await its result; whatever it raises becomes a ``RequestError``."""
    try:
        if timeout_s is None:
            return await _completed(start, args)
        return await within(operation, timeout_s, _completed(start, args))
    except Raised as parcel:
        raise _failure(parcel.error, operation, session_name) from parcel.error
    except EnvironmentTimeoutError:
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
            raise
        raise _failure(error, operation, session_name) from error


async def _completed(start: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> Any:
    result = await start(*args)
    return result if isinstance(result, FINAL) else await _resolved(result)


async def _resolved(result: Any) -> Any:
    """Await what a plain method returned, if that can be awaited."""
    return await result if isawaitable(result) else result


def _is_being_cancelled() -> bool:
    """Whether somebody cancels this task; otherwise a ``CancelledError`` is the environment's own."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def within(operation: str, timeout_s: float | None, call: Awaitable[Any]) -> Any:
    """Await a call of the environment's code for so long.

    Raises:
        EnvironmentTimeoutError: It took longer.
    """
    timer = asyncio.timeout(timeout_s)
    try:
        async with timer:
            return await call
    except TimeoutError:
        if timeout_s is not None and timer.expired():
            raise EnvironmentTimeoutError(operation, timeout_s) from None
        raise


def _failure(error: BaseException, operation: str, session_name: str | None) -> RequestError:
    if isinstance(error, RequestError):
        return error
    logger.error("%s of an environment raised", operation, exc_info=error, extra={"session": session_name})
    return EnvironmentFailedError(message_of(error), origin=origin_of(error))
