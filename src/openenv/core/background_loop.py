"""The event loop in a thread that all blocking use of asynchronous code in a process shares.

Blocking callers, however many threads they come from, share one loop in one thread: a loop for each client would cost a
thread, three file descriptors and a scheduler's attention for every session.
"""

import asyncio
import os
from asyncio import _get_running_loop  # the form of get_running_loop() that answers None instead of raising
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from threading import Lock, Thread, current_thread
from typing import Any, Generic, TypeVar

from openenv.core.event_loop import new_event_loop
from openenv.core.exceptions import ClientModeError, ConnectionFailedError

ResultT = TypeVar("ResultT")

_LONGEST_WAIT_S = 1.0


class _BlockingCall(Generic[ResultT]):
    """A coroutine for which a thread waits while it runs on a loop of another thread.

    It has the context variables of the thread that waits. A lock is the cheapest thing to wait for: a
    ``concurrent.futures.Future`` costs more than sending a vector's turn.

    Args:
        coroutine: The coroutine.
        loop: The loop.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, ResultT], loop: asyncio.AbstractEventLoop) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._context = copy_context()
        self._has_ended = Lock()
        self._has_ended.acquire()
        self._task: asyncio.Task[None] | None = None
        self._results: list[ResultT] = []
        self._error: BaseException | None = None

    def start(self) -> None:
        """Start the coroutine; called on the loop."""
        self._task = self._loop.create_task(self._carry_out(), context=self._context)

    def cancel(self) -> None:
        """Cancel the coroutine, unless it has ended; called on the loop, after ``start`` if that is called at all."""
        if self._task is None:
            self._coroutine.close()
        else:
            self._loop.call_soon(self._task.cancel)  # after its first step, which may be due only now

    def result(self) -> ResultT:
        """Wait for the coroutine's result, or raise its error."""
        # Python does not see a signal that arrives just before a thread waits for a lock until the wait has ended.
        while not self._has_ended.acquire(timeout=_LONGEST_WAIT_S):
            pass
        if self._error is None:
            return self._results[0]
        try:
            raise self._error
        finally:
            self._error = None  # whose traceback refers to this frame

    async def _carry_out(self) -> None:
        try:
            self._results.append(await self._coroutine)
        except BaseException as error:
            self._error = error
            if not isinstance(error, Exception):  # the task's cancellation, or what ends the loop
                raise
        finally:
            self._has_ended.release()


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
        call = _BlockingCall(coroutine, self.loop)
        try:
            self.call(call.start)
            return call.result()
        except ConnectionFailedError as error:
            raise error.with_traceback(None) from None  # its sentence says all; the frames are of another thread
        except BaseException:
            self.call(call.cancel)  # the wait was interrupted; a coroutine that has ended does not mind
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
