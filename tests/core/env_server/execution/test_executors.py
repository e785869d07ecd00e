"""Executors: what becomes of calls that nobody awaits any more."""

import asyncio
import inspect
import threading
from collections.abc import Coroutine, Iterator
from threading import Event
from typing import Any

import pytest

from openenv import Action, Environment, Observation, State
from openenv.core.env_server.execution.executors import SharedThreadExecutor, ThreadExecutor
from openenv.core.env_server.execution.local_runner import LocalRunner


class Recording(Environment[Action, Observation, State]):
    """Makes its snapshot in a coroutine, which the test sees, once the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.calling = Event()
        self.may_return = Event()
        self.made: list[Coroutine[Any, Any, dict[str, int]]] = []

    def reset(self, seed: int | None = None) -> Observation:
        return Observation()

    def step(self, action: Action) -> Observation:
        return Observation()

    @property
    def state(self) -> State:
        return State()

    def snapshot(self) -> Coroutine[Any, Any, dict[str, int]]:
        self.calling.set()
        self.may_return.wait(60)
        self.made.append(self._read())
        return self.made[0]

    def restore(self, snapshot: Any) -> None:
        pass

    async def _read(self) -> dict[str, int]:
        return {}


@pytest.fixture
def executor() -> Iterator[ThreadExecutor]:
    executor = ThreadExecutor("test")
    yield executor
    executor.close()


async def started(environment: Recording, executor: ThreadExecutor) -> "asyncio.Task[Any]":
    runner = LocalRunner(environment, executor)
    snapshot = asyncio.create_task(runner.snapshot())
    assert await asyncio.to_thread(environment.calling.wait, 60)
    return snapshot


async def test_a_coroutine_of_a_call_that_was_cancelled_is_closed(executor: ThreadExecutor) -> None:
    environment = Recording()
    snapshot = await started(environment, executor)
    snapshot.cancel()
    await asyncio.wait((snapshot,))
    environment.may_return.set()
    await executor.run(int)  # the answer of the call before has come, too
    assert snapshot.cancelled()
    assert inspect.getcoroutinestate(environment.made[0]) == inspect.CORO_CLOSED


@pytest.mark.level("files")
async def test_so_is_one_whose_task_is_cancelled_when_the_answer_has_come(executor: ThreadExecutor) -> None:
    environment = Recording()
    snapshot = await started(environment, executor)
    loop, is_cancelled = asyncio.get_running_loop(), Event()

    def cancel_after_the_answer() -> None:
        loop.call_soon_threadsafe(snapshot.cancel)
        is_cancelled.set()

    after = executor.run(cancel_after_the_answer)
    environment.may_return.set()
    assert is_cancelled.wait(
        60
    )  # the event loop stands still, so that it meets the answer and the cancellation at once
    await asyncio.wait((snapshot,))
    await after
    assert snapshot.cancelled()
    assert inspect.getcoroutinestate(environment.made[0]) == inspect.CORO_CLOSED


async def test_a_closed_executor_starts_no_thread(executor: ThreadExecutor) -> None:
    thread = await executor.run(threading.current_thread)
    executor.close()
    with pytest.raises(RuntimeError, match="its thread has ended"):
        executor.run(int)
    thread.join(60)
    assert not thread.is_alive()
    unused = ThreadExecutor("unused")
    unused.close()
    with pytest.raises(RuntimeError, match="its thread has ended"):
        unused.run(int)


async def test_a_server_that_starts_again_has_a_thread_again() -> None:
    executor = SharedThreadExecutor("shared")
    first = await executor.run(threading.current_thread)
    executor.shut_down()
    second = await executor.run(threading.current_thread)
    executor.shut_down()
    for thread in (first, second):
        thread.join(60)
        assert not thread.is_alive()
    assert first is not second
