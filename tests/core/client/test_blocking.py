"""The loop behind blocking use, and the rule for when a call blocks."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest
from tests.support.servers import PROGRAMS, RunningServer

from openenv.core.client.blocking import (
    BackgroundLoop,
    LoopLock,
    background_loop,
    blocks_outside_loop,
    in_event_loop,
    run_async_safely,
    start_in_thread,
    wait_for,
)


class Thermometer:
    """A client in miniature."""

    @blocks_outside_loop
    async def read(self, scale: str = "C") -> str:
        """Read it."""
        await asyncio.sleep(0)
        return f"20 {scale}"

    @blocks_outside_loop
    async def fail(self) -> None:
        raise LookupError("broken")


def test_a_method_blocks_where_no_loop_runs() -> None:
    assert Thermometer().read(scale="K") == "20 K"  # type: ignore[comparison-overlap]


async def test_a_method_is_awaitable_inside_a_loop() -> None:
    assert await Thermometer().read("K") == "20 K"


async def test_a_coroutine_is_run_to_its_end_wherever_the_caller_is() -> None:
    assert run_async_safely(coro=asyncio.sleep(0, "in a loop")) == "in a loop"
    outside = await asyncio.to_thread(run_async_safely, coro=asyncio.sleep(0, "in a thread"))
    assert outside == "in a thread"


def test_an_error_keeps_its_type() -> None:
    thermometer: Any = Thermometer()
    with pytest.raises(LookupError, match="broken"):
        wait_for(Thermometer().fail)
    with pytest.raises(LookupError, match="broken"):
        thermometer.fail()


def test_a_method_keeps_its_name_and_docstring() -> None:
    assert (Thermometer.read.__name__, Thermometer.read.__doc__) == ("read", "Read it.")


def test_in_event_loop() -> None:
    async def ask() -> bool:
        return in_event_loop()

    assert asyncio.run(ask()) is True
    assert in_event_loop() is False


async def test_wait_for_blocks_also_inside_a_loop() -> None:
    assert wait_for(Thermometer().read, "F") == "20 F"


def test_wait_for_takes_plain_functions_and_coroutine_functions() -> None:
    async def answer() -> int:
        return 42

    assert wait_for(answer) == 42
    assert wait_for(len, "abc") == 3


@pytest.mark.parametrize("name", ["function", "args", "kwargs", "coroutine", "self"])
def test_wait_for_passes_on_an_argument_of_any_name(name: str) -> None:
    def taking(**arguments: Any) -> dict[str, Any]:
        return arguments

    assert wait_for(taking, **{name: 1}) == {name: 1}


async def test_wait_for_passes_on_an_argument_of_any_name_inside_a_loop() -> None:
    def taking(**arguments: Any) -> dict[str, Any]:
        return arguments

    arguments: dict[str, Any] = {"function": 1, "kwargs": 2}
    assert wait_for(taking, **arguments) == arguments


def test_all_threads_share_one_loop_in_one_daemon_thread() -> None:
    with ThreadPoolExecutor(16) as pool:
        loops = set(pool.map(lambda _: background_loop(), range(64)))
    assert len(loops) == 1
    threads = [thread for thread in threading.enumerate() if thread.name == "openenv-clients"]
    assert len(threads) == 1
    assert threads[0].daemon


def test_a_coroutine_has_the_context_of_the_thread_that_waits_for_it() -> None:
    traced: ContextVar[str] = ContextVar("traced", default="nothing")
    traced.set("this call")

    async def read() -> str:
        return traced.get()

    assert wait_for(read) == "this call"


def test_a_wait_that_is_interrupted_cancels_the_coroutine() -> None:
    started, cancelled = threading.Event(), threading.Event()

    async def wait_for_ever() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    def interrupt() -> None:
        started.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        background_loop().run(wait_for_ever())
    thread.join()
    assert cancelled.wait(60)


def test_a_coroutine_that_is_cancelled_by_itself_is_no_deadlock() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError("given up")

    with pytest.raises(asyncio.CancelledError, match="given up"):
        background_loop().run(give_up())
    assert wait_for(Thermometer().read) == "20 C"


def test_calls_from_many_threads_are_all_made_in_each_thread_s_order() -> None:
    background = background_loop()
    made: list[tuple[int, int]] = []
    done = threading.Event()

    def call(thread: int) -> None:
        for number in range(500):
            background.call(made.append, (thread, number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(8)))
    background.call(done.set)
    assert done.wait(60)
    assert len(made) == 4_000
    for thread in range(8):
        assert [number for owner, number in made if owner == thread] == list(range(500))


def test_a_call_that_raises_does_not_hold_up_those_behind_it() -> None:
    background = BackgroundLoop()
    reported: list[dict[str, Any]] = []
    background.loop.set_exception_handler(lambda _loop, context: reported.append(context))
    blocked, release, done = threading.Event(), threading.Event(), threading.Event()

    def block() -> None:
        blocked.set()
        release.wait(60)

    def fail() -> None:
        raise LookupError

    background.call(block)
    assert blocked.wait(60)
    background.call(fail)
    background.call(done.set)
    release.set()
    assert done.wait(60)
    assert len(reported) == 1
    background.loop.call_soon_threadsafe(background.loop.stop)


def test_a_call_that_raises_does_not_hold_up_one_that_came_with_it() -> None:
    background = BackgroundLoop()
    reported: list[dict[str, Any]] = []
    background.loop.set_exception_handler(lambda _loop, context: reported.append(context))
    done = threading.Event()

    def fail() -> None:
        raise LookupError

    def come_together() -> None:
        background.call(fail)
        background.call(done.set)

    background.loop.call_soon_threadsafe(come_together)  # on the loop itself, so that both wait for one waking
    assert done.wait(60)
    assert len(reported) == 1
    background.loop.call_soon_threadsafe(background.loop.stop)


class TestLoopLock:
    def test_it_serves_one_loop_after_another(self) -> None:
        lock = LoopLock()

        async def use() -> list[int]:
            order: list[int] = []

            async def enter(number: int) -> None:
                async with lock.here():
                    order.append(number)
                    await asyncio.sleep(0)
                    order.append(number)

            await asyncio.gather(*(enter(number) for number in range(3)))
            return order

        for _ in range(3):
            assert asyncio.run(use()) == [0, 0, 1, 1, 2, 2]

    def test_what_a_loop_left_locked_does_not_lock_the_next(self) -> None:
        lock = LoopLock()

        async def leave_locked() -> None:
            await lock.here().acquire()

        for _ in range(2):
            asyncio.run(asyncio.wait_for(leave_locked(), 5))


@pytest.mark.parametrize("which", ["new", "inherited", "closed"])
def test_a_forked_child_plays_in_a_session_of_its_own(counter_server: RunningServer, which: str) -> None:
    arguments = [sys.executable, str(PROGRAMS / "forking.py"), counter_server.url, which]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr


class Machine:
    """Something that is started, and takes until it is told to go on."""

    def __init__(self) -> None:
        self.starting, self.go_on, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.fails = False

    def start(self) -> str:
        self.starting.set()
        assert self.go_on.wait(60)
        if self.fails:
            raise LookupError("broken")
        return "started"

    def stop(self) -> None:
        self.ended.set()


async def test_a_start_in_a_thread_gives_its_result_or_error() -> None:
    machine = Machine()
    machine.go_on.set()
    assert await start_in_thread(machine.start, machine.stop) == "started"
    machine.fails = True
    with pytest.raises(LookupError, match="broken"):
        await start_in_thread(machine.start, machine.stop)
    assert not machine.ended.is_set()


async def test_a_start_that_is_given_up_is_stopped_once_it_has_ended() -> None:
    machine = Machine()
    waiting = asyncio.create_task(start_in_thread(machine.start, machine.stop))
    assert await asyncio.to_thread(machine.starting.wait, 60)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not machine.ended.is_set()
    machine.go_on.set()
    assert await asyncio.to_thread(machine.ended.wait, 60)


async def test_a_start_whose_coroutine_is_closed_is_stopped_too() -> None:
    machine = Machine()
    waiting = start_in_thread(machine.start, machine.stop)
    waiting.send(None)  # up to where a task would wait
    assert await asyncio.to_thread(machine.starting.wait, 60)
    waiting.close()
    machine.go_on.set()
    assert await asyncio.to_thread(machine.ended.wait, 60)


async def test_a_start_that_is_given_up_just_as_it_ends_is_stopped_too() -> None:
    machine = Machine()
    done = threading.Event()

    def start() -> None:
        machine.start()
        done.set()

    waiting = asyncio.create_task(start_in_thread(start, machine.stop))
    assert await asyncio.to_thread(machine.starting.wait, 60)
    machine.go_on.set()
    assert done.wait(60)  # the loop must not learn of it
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await asyncio.to_thread(machine.ended.wait, 60)


async def test_a_given_up_start_that_fails_leaves_nothing_to_stop() -> None:
    machine = Machine()
    machine.fails = True
    waiting = asyncio.create_task(start_in_thread(machine.start, machine.stop))
    assert await asyncio.to_thread(machine.starting.wait, 60)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    machine.go_on.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert not machine.ended.is_set()
