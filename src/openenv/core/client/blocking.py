"""Blocking use of clients, and the one rule for when a call blocks.

A client's methods block where no event loop runs and return an awaitable inside a running one. What a
blocking call returns may be awaited, too.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import iscoroutine, iscoroutinefunction
from threading import Lock, Thread
from typing import Any, Generic, ParamSpec, TypeVar, cast

from openenv.core.background_loop import BackgroundLoop as BackgroundLoop
from openenv.core.background_loop import background_loop as background_loop
from openenv.core.background_loop import in_event_loop as in_event_loop
from openenv.core.client.results import Nothing, awaitable

ResultT = TypeVar("ResultT")
P = ParamSpec("P")


NOTHING = Nothing()
"""Result of a method that has blocked and has none."""


class LoopLock:
    """A lock that may be used in one event loop after another; asyncio's own belong to one."""

    def __init__(self) -> None:
        self._of_loop: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    @property
    def used(self) -> bool:
        """Return whether a loop has used it."""
        return self._of_loop is not None

    def here(self) -> asyncio.Lock:
        """Return the lock for the running loop."""
        loop = asyncio.get_running_loop()
        if self._of_loop is None or self._of_loop[0] is not loop:
            self._of_loop = loop, asyncio.Lock()
        return self._of_loop[1]


def wait_for(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a client's method and wait for what it gives, also where this thread runs an event loop (as in a notebook).

    Args:
        function: A coroutine function, or a method that follows the one rule.
        *args: Passed on.
        **kwargs: Passed on.
    """
    if in_event_loop() or iscoroutinefunction(getattr(function, "__wrapped__", function)):
        return background_loop().run(awaited(function, *args, **kwargs))
    result = function(*args, **kwargs)
    return background_loop().run(result) if iscoroutine(result) else result


async def awaited(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a client's method in the running loop, and await what it gives where that is a coroutine."""
    result = function(*args, **kwargs)
    return await result if iscoroutine(result) else result


def run_async_safely(coro: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine and wait for its result, whether or not this thread runs an event loop.

    Args:
        coro: The coroutine.
    """
    return background_loop().run(coro)


async def start_in_thread(start: Callable[[], ResultT], stop: Callable[[], None]) -> ResultT:
    """Run what starts something, and blocks, in a thread; if the wait for it is cancelled, have it stopped.

    Args:
        start: Starts it. A thread can't be interrupted, so that this goes on to its end.
        stop: Stops what ``start`` has started, in a thread; called if the caller was cancelled.
    """
    started = _Start(start, stop)
    try:
        return await asyncio.to_thread(started.run)
    except (asyncio.CancelledError, GeneratorExit):  # the latter where a coroutine is closed instead of awaited
        started.give_up()
        raise


async def run_in_thread(function: Callable[[], object]) -> None:
    """Run what blocks in a thread; where the interpreter is ending, which starts no threads any more, at once.

    Args:
        function: What blocks.
    """
    try:
        running = asyncio.get_running_loop().run_in_executor(None, function)
    except RuntimeError:
        function()
    else:
        await running


class Attempt(Thread, Generic[ResultT]):
    """A call in a thread of its own, which starts at once. A call that hangs keeps no program from ending.

    Args:
        function: The function; wait for its end with ``join``.
        arguments: Its arguments.

    Attributes:
        result: The function's result; ``None`` until it returns.
        error: The exception that it raised, ``SystemExit`` included; ``None`` if it raised none.
    """

    def __init__(self, function: Callable[..., ResultT], *arguments: Any, **named: Any) -> None:
        super().__init__(daemon=True)
        self._call = function, arguments, named
        self.result: ResultT | None = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Call the function."""
        function, arguments, named = self._call
        try:
            self.result = function(*arguments, **named)
        except BaseException as error:  # noqa: BLE001  # the caller decides
            self.error = error


class _Start(Generic[ResultT]):
    """A start that may be given up at any moment, also the one at which it ends."""

    def __init__(self, start: Callable[[], ResultT], stop: Callable[[], None]) -> None:
        self._start = start
        self._stop = stop
        self._lock = Lock()
        self._has_started = False
        self._is_given_up = False

    def run(self) -> ResultT:
        result = self._start()
        with self._lock:
            self._has_started = True
            is_given_up = self._is_given_up
        if is_given_up:
            self._stop()
        return result

    def give_up(self) -> None:
        with self._lock:
            self._is_given_up = True
            has_started = self._has_started
        if has_started:
            Thread(target=self._stop, name="openenv-stop").start()


def blocks_outside_loop(
    method: Callable[P, Coroutine[Any, Any, ResultT]],
) -> Callable[P, Coroutine[Any, Any, ResultT]]:
    """Make a client's coroutine method follow the one rule: it blocks where no event loop runs.

    Its type stays that of a coroutine function, which is what typed code should use; for typed blocking code there is
    ``EnvClient.sync()``.

    Example:
        >>> from openenv import GenericEnvClient
        >>> class NotesEnv(GenericEnvClient):
        ...     @blocks_outside_loop
        ...     async def write(self, text: str) -> None:
        ...         await self.step({"text": text})
    """
    returns_nothing = method.__annotations__.get("return", ...) in (None, "None")

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, ResultT]:
        coroutine = method(*args, **kwargs)
        if in_event_loop():
            return coroutine
        result = background_loop().run(coroutine)
        return cast(
            "Coroutine[Any, Any, ResultT]", NOTHING if returns_nothing and result is None else awaitable(result)
        )

    return call
