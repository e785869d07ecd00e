"""Sessions: turns, order, slots, time."""

import asyncio
import threading
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.environments.common import (
    Add,
    CounterEnvironment,
    Gate,
    GatedEnvironment,
    HangingAsyncEnvironment,
    SingleSessionEnvironment,
    ThreadedCounterEnvironment,
    Total,
)
from tests.support.servers import closing

from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.metrics import Ending, Transport
from openenv.core.env_server.sessions import session as session_module
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.types import ConcurrencyConfig, State
from openenv.core.environment_types import EnvironmentTypes
from openenv.core.exceptions import (
    ConcurrencyConfigurationError,
    EnvironmentFactoryError,
    ResetNeededError,
    SessionCapacityError,
    SessionCreationError,
    SessionNotFoundError,
)

TYPES = EnvironmentTypes(Add, Total, State)


def sessions_of(environment: Any = CounterEnvironment, **limits: Any) -> SessionManager:
    return SessionManager(EnvironmentFactory(environment), TYPES, ServerConfig(**{"max_sessions": 2, **limits}))


class TestTurns:
    async def test_requests_at_the_same_time_are_played_in_the_order_in_which_they_came(self) -> None:
        sessions = sessions_of(ThreadedCounterEnvironment)
        session = await sessions.open()
        await session.reset({})
        outcomes = await asyncio.gather(*(session.step({"amount": 1}) for _ in range(9)))
        assert [outcome.observation.total for outcome in outcomes] == list(range(1, 10))  # type: ignore[union-attr]
        await sessions.close_all()

    async def test_order_is_enforced(self) -> None:
        sessions = sessions_of()
        session = await sessions.open()
        with pytest.raises(ResetNeededError, match="no episode has been started"):
            await session.step({"amount": 1})
        await session.reset({})
        await session.step({"amount": 10})
        with pytest.raises(ResetNeededError, match="the episode has ended"):
            await session.step({"amount": 1})
        await session.reset({})
        assert (await session.step({"amount": 1})).observation.total == 1  # type: ignore[union-attr]
        assert session.episode.step_count == 1
        await sessions.close_all()

    async def test_an_episode_that_ends_with_its_reset(self) -> None:
        class Short(CounterEnvironment):
            def reset(self, seed: int | None = None, episode_id: str | None = None) -> Total:
                return Total(total=10, done=True)

        sessions = sessions_of(Short)
        session = await sessions.open()
        assert (await session.reset({})).done is True
        with pytest.raises(ResetNeededError):
            await session.step({"amount": 1})
        await sessions.close_all()

    async def test_a_closed_session_answers_nothing(self) -> None:
        sessions = sessions_of()
        session = await sessions.open()
        sessions.close(session)
        for call in (session.reset({}), session.step({"amount": 1}), session.state()):
            with pytest.raises(SessionNotFoundError, match="has ended"):
                await call

    async def test_its_description(self) -> None:
        sessions = sessions_of()
        session = await sessions.open()
        await session.reset({})
        await session.step({"amount": 1})
        info = session.info()
        assert (info.session_id, info.step_count, info.environment_type) == (session.id, 1, "CounterEnvironment")
        assert info.created_at <= info.last_activity_at
        await sessions.close_all()


class TestPlaces:
    async def test_capacity(self) -> None:
        sessions = sessions_of(max_sessions=2)
        first = await sessions.open()
        await sessions.open()
        with pytest.raises(SessionCapacityError, match="2/2") as refused:
            await sessions.open()
        assert (refused.value.active_sessions, refused.value.max_sessions) == (2, 2)
        assert sessions.capacity_status().is_at_capacity
        sessions.close(first)
        await sessions.open()
        await sessions.close_all()
        assert len(sessions) == 0

    async def test_a_place_is_taken_before_the_environment_is_made(self, gate: Gate) -> None:
        class SlowlyMade(GatedEnvironment):
            def __init__(self, gate: Gate) -> None:
                gate.pass_through()
                super().__init__(gate)

        sessions = sessions_of(partial(SlowlyMade, gate), max_sessions=2)
        opening = [asyncio.ensure_future(sessions.open()) for _ in range(2)]
        for _ in opening:
            await asyncio.to_thread(gate.wait_until_entered)
        with pytest.raises(SessionCapacityError):
            await sessions.open()
        gate.opened.set()
        await asyncio.gather(*opening)
        await sessions.close_all()

    async def test_a_factory_that_fails_gives_its_place_back(self) -> None:
        attempts: list[int] = []

        class Sometimes(CounterEnvironment):
            def __init__(self) -> None:
                super().__init__()
                attempts.append(1)
                if len(attempts) < 4:
                    raise RuntimeError("not yet")

        sessions = sessions_of(Sometimes, max_sessions=1)
        for _ in range(3):
            with pytest.raises(EnvironmentFactoryError):
                await sessions.open()
        assert len(sessions) == 0
        await sessions.open()
        await sessions.close_all()

    @pytest.mark.parametrize(
        "environment", [SingleSessionEnvironment, SingleSessionEnvironment(), CounterEnvironment()]
    )
    def test_many_sessions_of_a_class_or_instance_for_one(self, environment: Any) -> None:
        with pytest.raises(ConcurrencyConfigurationError) as refused:
            sessions_of(environment, max_sessions=2)
        assert refused.value.max_concurrent_envs == 2

    def test_one_session_of_a_function_makes_nothing_beforehand(self) -> None:
        made: list[int] = []

        def make() -> Any:
            made.append(1)
            return CounterEnvironment()

        sessions_of(make, max_sessions=1)
        assert made == []
        sessions_of(make, max_sessions=2)
        assert made == [1]

    async def test_attach(self) -> None:
        sessions = sessions_of()
        session = await sessions.open(transport=Transport.HTTP)
        assert sessions.attach(session.id) is session
        with pytest.raises(SessionCreationError, match="already has an attached WebSocket"):
            sessions.attach(session.id)
        with pytest.raises(SessionNotFoundError):
            sessions.attach("zzz")
        await sessions.close_all()

    async def test_a_session_apart_needs_no_place(self) -> None:
        sessions = sessions_of(max_sessions=1)
        await sessions.open()
        async with sessions.temporary_session() as session:
            assert (await session.step({"amount": 1})).observation.total == 1  # type: ignore[union-attr]
            assert len(sessions) == 1
        assert session.closed
        await sessions.close_all()

    async def test_closing_twice_closes_the_environment_once(self, gate: Gate) -> None:
        sessions = sessions_of(partial(GatedEnvironment, gate))
        session = await sessions.open()
        sessions.close(session)
        sessions.close(session)
        await sessions.close_all()
        assert gate.calls.count("close") == 1

    async def test_ids_cannot_be_guessed(self) -> None:
        sessions = sessions_of(max_sessions=50)
        ids = {(await sessions.open()).id for _ in range(50)}
        assert len(ids) == 50
        assert all(len(name) >= 32 for name in ids)
        await sessions.close_all()


class TestIdleness:
    async def test_an_idle_session_is_closed(self, gate: Gate) -> None:
        sessions = sessions_of(partial(GatedEnvironment, gate), idle_timeout_s=0.05)
        session = await sessions.open()
        for _ in range(500):
            if len(sessions) == 0:
                break
            await asyncio.sleep(0.005)
        assert session.closed
        with pytest.raises(SessionNotFoundError, match="idle"):
            await session.state()
        await sessions.close_all()
        assert gate.calls == ["make", "close"]

    async def test_a_session_that_is_busy_is_not_idle(self, gate: Gate) -> None:
        sessions = sessions_of(partial(GatedEnvironment, gate), idle_timeout_s=0.05)
        session = await sessions.open()
        await session.reset({})
        held = asyncio.ensure_future(session.step({"amount": 9}))
        await asyncio.to_thread(gate.wait_until_entered)
        await asyncio.sleep(0.2)  # four times as long as it may be idle
        assert not session.closed
        gate.opened.set()
        assert (await held).observation.total == 9  # type: ignore[union-attr]
        assert not session.closed, "the time counts from the end of the step"
        await sessions.close_all()

    async def test_an_attached_session_is_not_idle(self) -> None:
        sessions = sessions_of(idle_timeout_s=0.05)
        session = await sessions.open(transport=Transport.HTTP)
        sessions.attach(session.id)
        await asyncio.sleep(0.2)  # four times as long as it may be idle
        assert not session.closed
        await sessions.close_all()

    def test_an_idle_socket_loses_its_session(self, serve: Serve) -> None:
        server = serve(concurrency_config=ConcurrencyConfig(max_concurrent_envs=1, session_timeout=0.1))
        with server.wire() as wire:
            wire.reset()
            server.wait_for_sessions(0)
            with server.wire() as other:
                assert other.reset()["type"] == "observation"


class TestUnused:
    """A socket that is opened and not used has its slot only for as long as no other client needs it."""

    @pytest.fixture
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """What is added to the time that sessions read."""
        ahead = [0.0]
        read = time.monotonic
        monkeypatch.setattr(
            session_module, "time", SimpleNamespace(monotonic=lambda: read() + ahead[0], time=time.time)
        )
        return ahead

    @pytest.mark.parametrize("transport", [Transport.LEGACY, Transport.V1, Transport.MCP])
    async def test_it_gives_way_after_a_while(self, transport: Transport, clock: list[float]) -> None:
        sessions = sessions_of()
        first = await sessions.open(transport=transport)
        clock[0] = 800.0
        second = await sessions.open(transport=transport)
        with pytest.raises(SessionCapacityError):
            await sessions.open()
        clock[0] = 901.0
        third = await sessions.open()
        assert (first.closed, first.ending, second.closed) == (True, Ending.REPLACED, False)
        with pytest.raises(SessionCapacityError):
            await sessions.open()
        with pytest.raises(SessionNotFoundError, match="idle for too long"):
            await first.reset({})
        assert len(sessions) == 2
        assert not third.closed
        await sessions.close_all()

    async def test_one_that_is_attached_to_a_socket_does_so_too(self, clock: list[float]) -> None:
        sessions = sessions_of(max_sessions=1)
        session = await sessions.open(transport=Transport.MCP)
        sessions.attach(session.id)
        clock[0] = 901.0
        await sessions.open()
        assert session.closed
        await sessions.close_all()

    @pytest.mark.parametrize("use", ["reset", "state", "attach"])
    async def test_one_that_was_used_stays(self, clock: list[float], use: str) -> None:
        sessions = sessions_of(max_sessions=1)
        session = await sessions.open()
        if use == "attach":
            session.resume()
        else:
            await (session.reset({}) if use == "reset" else session.state())
        clock[0] = 100_000.0
        with pytest.raises(SessionCapacityError):
            await sessions.open()
        assert not session.closed
        await sessions.close_all()

    async def test_only_that_of_the_same_client_gives_way_to_its_limit(self, clock: list[float]) -> None:
        sessions = sessions_of(max_sessions=3, max_sessions_per_client=1)
        mine, other = [await sessions.open(client=client) for client in ("192.0.2.1", "192.0.2.2")]
        clock[0] = 901.0
        await sessions.open(client="192.0.2.1")
        assert (mine.closed, other.closed) == (True, False)
        await sessions.close_all()

    def test_its_socket_gets_an_error_and_is_closed(self, serve: Serve, clock: list[float]) -> None:
        server = serve(max_concurrent_envs=1)
        with server.wire() as unused:
            server.wait_for_sessions(1)
            clock[0] = 901.0
            with server.wire() as other:
                assert other.reset()["type"] == "observation"
            assert unused.reset()["data"]["code"] == "SESSION_ERROR"
            assert closing(unused)[0] == 1000


class TestTimeouts:
    @pytest.mark.parametrize("environment", ["thread", "async"])
    def test_a_step_over_its_time_and_the_session_goes_on(self, serve: Serve, gate: Gate, environment: str) -> None:
        factory = partial(GatedEnvironment, gate) if environment == "thread" else HangingAsyncEnvironment
        server = serve(factory, step_timeout_s=0.3)
        with server.wire() as wire, server.wire() as other:
            wire.reset()
            wire.step(amount=1)
            other.reset()
            assert wire.step(amount=9) == {
                "type": "error",
                "data": {
                    "message": "step did not finish within 0.3 s; it may still take effect.",
                    "code": "TIMEOUT",
                    "operation": "step",
                    "timeout_s": 0.3,
                    "may_have_happened": True,
                },
            }
            assert other.step(amount=2)["data"]["observation"]["total"] == 2
            gate.opened.set()
            assert wire.reset()["type"] == "observation"
            assert wire.step(amount=1)["data"]["observation"]["total"] == 1

    def test_a_reset_over_its_time_and_the_session_goes_on(self, serve: Serve, gate: Gate) -> None:
        with serve(partial(GatedEnvironment, gate), reset_timeout_s=0.3).wire() as wire:
            answer = wire.reset(episode_id="held")
            assert (answer["data"]["code"], answer["data"]["operation"]) == ("TIMEOUT", "reset")
            gate.opened.set()
            assert wire.reset()["type"] == "observation"
            assert wire.step(amount=1)["data"]["observation"]["total"] == 1

    def test_a_hanging_session_harms_no_other_and_gives_its_place_back(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate), max_concurrent_envs=2, step_timeout_s=0.3)
        with server.wire() as hanging:
            hanging.reset()
            assert hanging.step(amount=9)["data"]["code"] == "TIMEOUT"
            with server.wire() as other:
                other.reset()
                assert other.step(amount=1)["data"]["observation"]["total"] == 1
        server.wait_for_sessions(0)
        with server.wire() as one, server.wire() as two:
            assert one.reset()["type"] == two.reset()["type"] == "observation"

    def test_what_waited_behind_a_hanging_call_and_was_given_up_is_never_run(self, serve: Serve, gate: Gate) -> None:
        with serve(partial(GatedEnvironment, gate), step_timeout_s=0.3).wire() as wire:
            wire.reset()
            assert wire.step(amount=9)["data"]["code"] == "TIMEOUT"
            assert wire.step(amount=5)["data"]["code"] == "TIMEOUT"
            gate.opened.set()
            assert wire.state()["data"]["step_count"] == 1
            assert gate.calls.count("step") == 1

    def test_the_time_is_handed_to_a_step_that_takes_it(self, serve: Serve) -> None:
        granted: list[float | None] = []

        class Curious(CounterEnvironment):
            def step(self, action: Add, timeout_s: float | None = None) -> Total:
                granted.append(timeout_s)
                return super().step(action)

        with serve(Curious, step_timeout_s=5).wire() as wire:
            wire.reset()
            wire.step(amount=1)
        assert granted == [5]


def test_a_plain_step_that_gives_something_to_await_has_its_time_too(serve: Serve) -> None:
    class Hanging(CounterEnvironment):
        def step(self, action: Add) -> Any:
            return asyncio.Event().wait() if action.amount == 9 else super().step(action)

    with serve(Hanging, step_timeout_s=0.1).wire() as wire:
        wire.reset()
        assert wire.step(amount=9)["data"]["code"] == "TIMEOUT"
        assert wire.step(amount=1)["data"]["observation"]["total"] == 1


def test_the_server_ends_while_an_environment_hangs(serve: Serve, gate: Gate) -> None:
    before = set(threading.enumerate())
    server = serve(partial(GatedEnvironment, gate), step_timeout_s=0.3)
    with server.wire() as wire:
        wire.reset()
        wire.step(amount=9)
    server.stop()
    (left,) = set(threading.enumerate()) - before
    assert left.name == gate.threads["step"]
