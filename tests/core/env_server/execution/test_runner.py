"""Where an environment's code runs, and what becomes of what it raises."""

import asyncio
import logging
import threading
from functools import partial
from typing import Any, ClassVar

import pytest
from tests.conftest import Serve
from tests.support.environments.common import (
    Add,
    AsyncCounterEnvironment,
    CounterEnvironment,
    Gate,
    GatedEnvironment,
    HangingAsyncEnvironment,
    InlineGatedEnvironment,
    SingleSessionEnvironment,
    ThreadedCounterEnvironment,
    Total,
)

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.execution.executors import (
    InlineExecutor,
    SharedThreadExecutor,
    ThreadExecutor,
    executor_for,
)
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.execution.local_runner import LocalRunner
from openenv.core.env_server.execution.runner import finished
from openenv.core.exceptions import EnvironmentFactoryError, EnvironmentFailedError, EnvironmentTimeoutError


class SingleThreadEnvironment(GatedEnvironment):
    """Every instance in one thread."""

    REQUIRES_SINGLE_THREAD_EXECUTOR = True


class ThreadNoting(CounterEnvironment):
    """Notes the thread of its making, to compare it with that of its calls."""

    BLOCKING = True
    REQUIRES_RESET = False
    seen: ClassVar[list[set[int]]]

    def __init__(self) -> None:
        super().__init__()
        self.threads = {threading.get_ident()}
        self.seen.append(self.threads)

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Total:
        self.threads.add(threading.get_ident())
        return super().reset(seed, episode_id)

    def step(self, action: Add) -> Total:
        self.threads.add(threading.get_ident())
        return super().step(action)

    @property
    def state(self) -> Any:
        self.threads.add(threading.get_ident())
        return super().state

    def close(self) -> None:
        self.threads.add(threading.get_ident())


class SingleThreadNoting(ThreadNoting):
    REQUIRES_SINGLE_THREAD_EXECUTOR = True


class InlineNoting(ThreadNoting):
    BLOCKING = False


def play_three(serve: Serve, environment: Any) -> None:
    """Three sessions, all alive at once, each through every call."""
    server = serve(environment)
    wires = [server.wire() for _ in range(3)]
    for wire in wires:
        wire.state()
        wire.reset()
        wire.step(amount=1)
    for wire in wires:
        wire.close()
    server.wait_for_sessions(0)
    server.stop()


class TestThreads:
    """Which thread each call really runs in, seen from a real server."""

    def played(self, serve: Serve, base: type[ThreadNoting], *, wrap: Any = None) -> list[set[int]]:
        class Noting(base):  # type: ignore[misc, valid-type]
            seen: ClassVar[list[set[int]]] = []

        play_three(serve, wrap(Noting) if wrap else Noting)
        return Noting.seen

    def test_a_blocking_class_has_one_thread_for_each_session_from_making_to_close(self, serve: Serve) -> None:
        seen = self.played(serve, ThreadNoting)
        assert [len(threads) for threads in seen] == [1, 1, 1]
        assert len(set.union(*seen)) == 3

    def test_a_partial_is_treated_as_its_class(self, serve: Serve) -> None:
        seen = self.played(serve, ThreadNoting, wrap=partial)
        assert [len(threads) for threads in seen] == [1, 1, 1]
        assert len(set.union(*seen)) == 3

    def test_a_class_that_wants_one_thread_gets_one_for_all(self, serve: Serve) -> None:
        seen = self.played(serve, SingleThreadNoting)
        assert len(seen) == 3
        assert len(set.union(*seen)) == 1

    def test_a_class_that_never_blocks_runs_on_the_loop(self, serve: Serve, gate: Gate) -> None:
        seen = self.played(serve, InlineNoting)
        assert len(seen) == 3
        assert len(set.union(*seen)) == 1

    def test_inline_is_the_server_s_own_thread(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(InlineGatedEnvironment, gate))
        before = set(threading.enumerate())
        with server.wire() as wire:
            wire.reset()
            assert gate.threads["reset"] == gate.threads["make"]
            names = {thread.name for thread in set(threading.enumerate()) - before}
            assert not any("GatedEnvironment" in name for name in names)

    def test_plain_methods_of_an_async_class_run_in_its_thread(self, serve: Serve) -> None:
        threads: dict[str, int] = {}

        class Mixed(AsyncCounterEnvironment):
            def __init__(self) -> None:
                super().__init__()
                threads["make"] = threading.get_ident()

            async def step(self, action: Add) -> Total:
                threads["step"] = threading.get_ident()
                return await super().step(action)

            def close(self) -> None:
                threads["close"] = threading.get_ident()

        server = serve(Mixed)
        with server.wire() as wire:
            wire.reset()
            wire.step(amount=1)
        server.wait_for_sessions(0)
        server.stop()
        assert threads["make"] == threads["close"] != threads["step"]

    def test_a_session_s_thread_ends_with_it(self, serve: Serve) -> None:
        server = serve(ThreadedCounterEnvironment)

        def of_environments() -> list[threading.Thread]:
            return [thread for thread in threading.enumerate() if "ThreadedCounter" in thread.name]

        with server.wire() as wire:
            wire.reset()
            assert len(of_environments()) == 1
        server.wait_for_sessions(0)
        server.stop()
        for thread in of_environments():
            thread.join(60)
        assert of_environments() == []

    def test_a_factory_that_fails_leaves_no_thread(self, serve: Serve) -> None:
        class FailingEnvironment(CounterEnvironment):
            BLOCKING = True

            def __init__(self) -> None:
                raise RuntimeError("no")

        server = serve(FailingEnvironment)
        for _ in range(5):
            with server.wire() as wire:
                assert wire.receive()["data"]["code"] == "FACTORY_ERROR"
        for thread in threading.enumerate():
            if "Failing" in thread.name:
                thread.join(60)
                assert not thread.is_alive()

    def test_a_shared_instance_serves_one_session_after_another_and_is_never_closed(
        self, serve: Serve, gate: Gate
    ) -> None:
        server = serve(GatedEnvironment(gate), max_concurrent_envs=1)
        for amount in (1, 2):
            with server.wire() as wire:
                wire.reset()
                assert wire.step(amount=amount)["data"]["observation"]["total"] == amount
            server.wait_for_sessions(0)
        assert "close" not in gate.calls
        assert gate.calls.count("make") == 1

    def test_a_shared_instance_is_served_by_the_same_application_twice(self) -> None:
        from tests.support.servers import RunningServer

        app = create_fastapi_app(SingleSessionEnvironment(), Add, Total)
        for _ in range(2):
            with RunningServer(app) as server, server.wire() as wire:
                assert wire.reset()["type"] == "observation"


def test_place_for() -> None:
    assert isinstance(executor_for(CounterEnvironment, "n"), InlineExecutor)
    assert isinstance(executor_for(ThreadedCounterEnvironment, "n"), ThreadExecutor)
    assert isinstance(executor_for(None, "n"), ThreadExecutor)


class TestPlaces:
    @pytest.mark.parametrize(
        "executor", [InlineExecutor(), ThreadExecutor("t"), SharedThreadExecutor("s")], ids=lambda p: type(p).__name__
    )
    async def test_calls_run_one_after_another_with_any_argument(self, executor: Any) -> None:
        made: list[int] = []
        await asyncio.gather(*(executor.run(made.append, number) for number in range(50)))
        assert made == list(range(50))
        assert await executor.run(dict, function=1, self=2, args=3) == {"function": 1, "self": 2, "args": 3}
        executor.close()

    async def test_a_thread_that_was_left_still_finishes_its_calls(self) -> None:
        executor = ThreadExecutor("t")
        release = threading.Event()
        first = asyncio.ensure_future(executor.run(release.wait, 5))
        second = asyncio.ensure_future(executor.run(len, "abc"))
        await asyncio.sleep(0)
        executor.close()
        release.set()
        assert await first is True
        assert await second == 3


class TestRunner:
    async def made(self, environment: Any, **settings: Any) -> LocalRunner:
        factory = EnvironmentFactory(environment)
        return await LocalRunner.make(factory, executor_for(factory.environment_class, "test"), **settings)

    async def test_timeouts(self, gate: Gate) -> None:
        runner = await self.made(partial(GatedEnvironment, gate))
        await finished(runner.reset({}))
        with pytest.raises(EnvironmentTimeoutError, match=r"step did not finish within 0\.1 s"):
            await finished(runner.step(Add(amount=9), {}, 0.1))
        gate.opened.set()
        assert (await finished(runner.step(Add(amount=1), {}))).total == 10
        await runner.close()

    async def test_an_async_step_over_its_time_is_cancelled(self) -> None:
        runner = await self.made(HangingAsyncEnvironment)
        await finished(runner.reset({}))
        with pytest.raises(EnvironmentTimeoutError):
            await finished(runner.step(Add(amount=9), {}, 0.05))
        assert (await finished(runner.step(Add(amount=1), {}, 0.5))).total == 1
        await runner.close()

    @pytest.mark.parametrize("blocking", [True, False])
    async def test_what_a_plain_method_gives_to_await_has_its_time_too(self, blocking: bool) -> None:
        class Hanging(CounterEnvironment):
            BLOCKING = blocking

            def step(self, action: Add) -> Any:
                return asyncio.Event().wait()

        runner = await self.made(Hanging)
        await finished(runner.reset({}))
        with pytest.raises(EnvironmentTimeoutError):
            await finished(runner.step(Add(amount=1), {}, 0.05))
        await runner.close()

    @pytest.mark.parametrize("environment", [CounterEnvironment, ThreadedCounterEnvironment, AsyncCounterEnvironment])
    async def test_a_timeout_of_its_own_is_a_failure_and_not_ours(self, environment: Any) -> None:
        class Impatient(environment):  # type: ignore[misc]
            def reset(self) -> Any:
                raise TimeoutError("the database")

        runner = await self.made(Impatient)
        with pytest.raises(EnvironmentFailedError, match="the database"):
            await finished(runner.reset({}, 5))
        await runner.close()

    async def test_a_cancelled_call_is_cancelled(self, gate: Gate) -> None:
        runner = await self.made(partial(GatedEnvironment, gate))
        held = asyncio.ensure_future(finished(runner.step(Add(amount=9), {})))
        await asyncio.to_thread(gate.wait_until_entered)
        held.cancel()
        with pytest.raises(asyncio.CancelledError):
            await held
        gate.opened.set()
        await runner.close()

    async def test_an_opening_that_is_cancelled_closes_what_it_made(self, gate: Gate) -> None:
        class SlowlyMade(GatedEnvironment):
            def __init__(self, gate: Gate) -> None:
                gate.pass_through()
                super().__init__(gate)

        opening = asyncio.ensure_future(self.made(partial(SlowlyMade, gate)))
        await asyncio.to_thread(gate.wait_until_entered)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        gate.opened.set()
        for _ in range(500):
            if "close" in gate.calls:
                break
            await asyncio.sleep(0.005)
        assert gate.calls == ["make", "close"]

    async def test_the_cause_is_logged_and_chained(self, caplog: pytest.LogCaptureFixture) -> None:
        runner = await self.made(ThreadedCounterEnvironment)
        await finished(runner.reset({}))
        with caplog.at_level(logging.ERROR), pytest.raises(EnvironmentFailedError, match="kaboom") as failed:
            await finished(runner.step(Add(amount=0), {}))
        assert isinstance(failed.value.__cause__, ValueError)
        (record,) = [record for record in caplog.records if record.name.startswith("openenv")]
        assert record.exc_info is not None
        assert isinstance(record.exc_info[1], ValueError)
        await runner.close()

    async def test_a_factory_that_fails(self) -> None:
        def make() -> Any:
            raise SystemExit

        with pytest.raises(EnvironmentFactoryError, match="'make'"):
            await self.made(make)

    async def test_an_async_close_is_awaited(self) -> None:
        closed: list[str] = []

        class Closing(CounterEnvironment):
            async def close(self) -> None:  # type: ignore[override]
                await asyncio.sleep(0)
                closed.append("yes")

        await (await self.made(Closing)).close()
        assert closed == ["yes"]

    async def test_a_plain_method_may_return_something_to_await(self) -> None:
        class Delegating(CounterEnvironment):
            async def _step(self, action: Add) -> Total:
                return super().step(action)

            def step(self, action: Add) -> Any:
                return self._step(action)

        runner = await self.made(Delegating)
        await finished(runner.reset({}))
        assert (await finished(runner.step(Add(amount=2), {}))).total == 2
        await runner.close()
