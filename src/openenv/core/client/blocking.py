"""The event loop behind all blocking use of clients in a process, and the one rule for when a call blocks.

A client's methods block where no event loop runs and return an awaitable inside a running one. Blocking callers,
however many threads they come from, share one loop in one thread: a loop for each client would cost a thread, three
file descriptors and a scheduler's attention for every session.
"""

import asyncio
import os
from asyncio import _get_running_loop  # the form of get_running_loop() that answers None instead of raising
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import wraps
from inspect import iscoroutine
from threading import Lock, Thread, current_thread
from typing import Any, Generic, ParamSpec, TypeVar, cast

from openenv.core.event_loop import new_event_loop
from openenv.core.exceptions import ClientModeError, ConnectionFailedError

ResultT = TypeVar("ResultT")
P = ParamSpec("P")


class BackgroundLoop:
    """An event loop in a daemon thread, which takes calls from other threads."""

    def __init__(self) -> None:
        self.loop = new_event_loop()
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._woken = False
        self._thread = Thread(target=self._run, name="openenv-clients", daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., None], *args: Any) -> None:
        """Have the loop call a function soon. Calls from many threads share one waking of the loop."""
        self._calls.append((function, args))
        if not self._woken:
            self._woken = True
            self.loop.call_soon_threadsafe(self._call_all)

    def run(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine on the loop and wait for its result.

        Raises:
            ClientModeError: This is the loop's own thread, which would wait for itself.
        """
        if current_thread() is self._thread:
            coroutine.close()
            raise ClientModeError(
                "A client's coroutine called a blocking method. Await the client's own method instead."
            )
        future: Future[ResultT] = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result()
        except ConnectionFailedError as error:
            raise error.with_traceback(None) from None  # its sentence says all; the frames are of another thread
        except BaseException:
            future.cancel()  # the wait was interrupted; a coroutine that has ended does not mind
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def _call_all(self) -> None:
        # Cleared first: a call that is appended from here on wakes the loop again.
        self._woken = False
        try:
            while self._calls:
                function, args = self._calls.popleft()
                function(*args)
        finally:
            if self._calls:  # one of them raised, which the loop reports
                self.loop.call_soon(self._call_all)


class LoopLock:
    """A lock that may be used in one event loop after another; asyncio's own belong to one."""

    def __init__(self) -> None:
        self._of_loop: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def here(self) -> asyncio.Lock:
        """Return the lock for the running loop."""
        loop = asyncio.get_running_loop()
        if self._of_loop is None or self._of_loop[0] is not loop:
            self._of_loop = loop, asyncio.Lock()
        return self._of_loop[1]


_lock = Lock()
_background: BackgroundLoop | None = None


def background_loop() -> BackgroundLoop:
    """Return the process's background loop, starting it if need be."""
    global _background  # noqa: PLW0603  # one per process is the point
    if _background is not None:  # every blocking call comes by here: no lock once there is a loop
        return _background
    with _lock:
        if _background is None:
            _background = BackgroundLoop()
        return _background


def _forget_after_fork() -> None:
    """A forked child has the parent's loop but not its thread."""
    global _background, _lock
    _background, _lock = None, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def in_event_loop() -> bool:
    """Whether an event loop runs in this thread."""
    return _get_running_loop() is not None


def wait_for(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a client's method and wait for what it gives, also where this thread runs an event loop (as in a notebook).

    Args:
        function: A coroutine function, or a method that follows the one rule.
        *args: Passed on.
        **kwargs: Passed on.
    """
    if in_event_loop():
        return background_loop().run(_awaited(function, args, kwargs))
    result = function(*args, **kwargs)
    return background_loop().run(result) if iscoroutine(result) else result


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


async def _awaited(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = function(*args, **kwargs)
    return await result if iscoroutine(result) else result


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

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, ResultT]:
        coroutine = method(*args, **kwargs)
        if in_event_loop():
            return coroutine
        return cast("Coroutine[Any, Any, ResultT]", background_loop().run(coroutine))

    return call
