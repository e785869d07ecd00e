"""Requests that a session handles: what the author's own models raise stays with the session."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel, PrivateAttr, field_serializer, field_validator
from tests.support.environments.common import (
    Add,
    AsyncCounterEnvironment,
    CounterEnvironment,
    ThreadedCounterEnvironment,
    Total,
)

from openenv.core.env_server.execution.executors import ThreadExecutor
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.execution.runner import finished
from openenv.core.env_server.execution.snapshots import Snapshot
from openenv.core.env_server.history.entries import Checkpoint
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.tools import tool
from openenv.core.env_server.types import Observation, State
from openenv.core.environment_types import EnvironmentTypes
from openenv.core.exceptions import (
    EnvironmentFailedError,
    IllegalActionError,
    InvalidRequestError,
    ResetNeededError,
    SessionNotFoundError,
)
from openenv.core.wire.actions import action_model
from openenv.core.wire.arrays import nested
from openenv.core.wire.mcp_types import ListToolsAction, ListToolsObservation


class PickyAdd(Add):
    """An action whose validator fails in a way that pydantic does not expect."""

    @field_validator("amount")
    @classmethod
    def look_up(cls, amount: int) -> int:
        return {1: 1}[amount]


class Rewardless(BaseModel):
    """A plain observation that can't say what its reward is."""

    @property
    def reward(self) -> float:
        return {"a": 1.0}["b"]


class RewardlessEnvironment(CounterEnvironment):
    """Gives an observation from which nothing can be learned."""

    def step(self, action: Add) -> Any:
        return Rewardless()


class AwaitedEnvironment(CounterEnvironment):
    """Returns something to await from plain methods."""

    def step(self, action: Add) -> Any:
        return self.later(action)

    async def later(self, action: Add) -> Any:
        return Rewardless() if action.amount == 9 else super().step(action)


class ListingEnvironment(CounterEnvironment):
    """Answers a list of its tools itself, beside other actions."""

    def step(self, action: Any) -> Any:
        return ListToolsObservation(tools=[]) if isinstance(action, ListToolsAction) else super().step(action)


class HeldEnvironment(AsyncCounterEnvironment):
    """Adds once it is released."""

    def __init__(self, released: asyncio.Event) -> None:
        super().__init__()
        self._released = released

    async def step(self, action: Add) -> Total:
        await self._released.wait()
        return await super().step(action)


class HeldStatelessEnvironment(Environment[Add, Total, State]):
    """Holds each step until it is released, and has no state of its own."""

    REQUIRES_RESET = True

    def __init__(self, released: asyncio.Event) -> None:
        self._released = released

    async def reset(self, seed: int | None = None, episode_id: str | None = None) -> Total:
        return Total(total=0)

    async def step(self, action: Add) -> Total:
        await self._released.wait()
        return Total(total=action.amount)

    @tool
    def total(self) -> int:
        """Return the total."""
        return 0


class ThreadedListingEnvironment(ListingEnvironment):
    BLOCKING = True


class Anything(Observation):
    value: Any = None


class Hold:
    """Holds calls of an environment between their beginning and their end."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.released = asyncio.Event()
        self.noted: list[str] = []


class LastingEnvironment(AsyncCounterEnvironment):
    """Notes when its calls begin and end, in between which the test holds them."""

    BLOCKING = False

    def __init__(self, hold: Hold) -> None:
        super().__init__()
        self._hold = hold

    async def reset(self, seed: int | None = None, episode_id: str | None = None) -> Total:
        await self.last("reset")
        return await super().reset(seed, episode_id)

    async def step(self, action: Add) -> Total:
        await self.last("step")
        return await super().step(action)

    def get_metadata(self) -> Any:
        return self.last("metadata")

    async def snapshot(self) -> Any:
        await self.last("snapshot")
        return {}

    def restore(self, snapshot: Any) -> Any:
        return self.last("restore")

    async def last(self, call: str) -> None:
        self._hold.noted.append(f"{call} begins")
        self._hold.begun.set()
        await self._hold.released.wait()
        self._hold.noted.append(f"{call} ends")

    def close(self) -> None:
        self._hold.noted.append("close")


class PlainLastingEnvironment(LastingEnvironment):
    """Returns something to await from a plain step."""

    def step(self, action: Add) -> Any:
        return super().step(action)


class SplitEnvironment(AsyncCounterEnvironment):
    """Notes its calls; the test holds the one that lists its splits."""

    def __init__(self, begun: threading.Event, released: threading.Event, noted: list[str]) -> None:
        super().__init__()
        self._begun = begun
        self._released = released
        self._noted = noted

    def list_splits(self) -> list[str]:
        self._noted.append("list_splits")
        self._begun.set()
        assert self._released.wait(60)
        return ["train"]

    async def reset(self, seed: int | None = None, episode_id: str | None = None, split: str | None = None) -> Total:
        self._noted.append("reset")
        return await super().reset(seed, episode_id)

    def close(self) -> None:
        self._noted.append("close")


class ThreadedSplitEnvironment(SplitEnvironment):
    def reset(self, seed: int | None = None, episode_id: str | None = None, split: str | None = None) -> Any:
        self._noted.append("reset")
        return Total(total=0)


async def session_of(environment: Callable[[], Any], action: type[Add] = Add, *, is_reset: bool = True) -> Session:
    factory = EnvironmentFactory(environment)
    session = await SessionManager(factory, EnvironmentTypes(action, Total, State), ServerConfig()).open()
    if is_reset:
        await answer(session, "reset", {})
    return session


async def answer(session: Session, kind: str, data: dict[str, Any]) -> str:
    return nested(await finished(session.handle(kind, data)))


class TestHandle:
    async def test_each_kind(self) -> None:
        session = await session_of(ThreadedCounterEnvironment)
        assert await answer(session, "reset", {"seed": 1}) == (
            '{"observation":{"metadata":{"seed":1},"total":0},"reward":null,"done":false,"metadata":{"seed":1}}'
        )
        assert await answer(session, "step", {"amount": 2}) == (
            '{"observation":{"metadata":{},"total":2},"reward":2,"done":false}'
        )
        assert await answer(session, "state", {}) == '{"episode_id":null,"step_count":1}'
        assert await answer(session, "render", {}) == "{}"
        await session.close()

    @pytest.mark.parametrize("environment", [CounterEnvironment, ThreadedCounterEnvironment])
    async def test_an_action_s_validator_that_fails_fails_the_step(
        self, environment: type, caplog: pytest.LogCaptureFixture
    ) -> None:
        session = await session_of(environment, PickyAdd)
        with pytest.raises(EnvironmentFailedError, match="2") as failed:
            await answer(session, "step", {"amount": 2})
        assert isinstance(failed.value.__cause__, KeyError)
        assert "look_up" in caplog.text, "the author learns where"
        assert '"total":1' in await answer(session, "step", {"amount": 1})
        await session.close()

    async def test_an_observation_that_can_t_be_read_fails_the_step(self) -> None:
        session = await session_of(RewardlessEnvironment)
        with pytest.raises(EnvironmentFailedError, match="b"):
            await answer(session, "step", {"amount": 2})
        await session.close()

    async def test_refusals_stay_what_they_are(self) -> None:
        session = await session_of(ThreadedCounterEnvironment)
        with pytest.raises(IllegalActionError):
            await answer(session, "step", {"amount": -1})
        with pytest.raises(InvalidRequestError):
            await answer(session, "step", {})
        await answer(session, "step", {"amount": 10})
        with pytest.raises(ResetNeededError):
            await answer(session, "step", {"amount": 1})
        await session.close()

    @pytest.mark.parametrize("environment", [HeldEnvironment, HeldStatelessEnvironment])
    async def test_a_state_is_that_after_the_step_under_way(self, environment: Callable[..., Any]) -> None:
        released = asyncio.Event()
        session = await session_of(partial(environment, released))
        stepping = asyncio.create_task(session.step({"amount": 2}))
        answering = asyncio.create_task(answer(session, "state", {}))
        reading = asyncio.create_task(session.state())
        done, _ = await asyncio.wait((stepping, answering, reading), timeout=0.5)
        assert not done
        released.set()
        await stepping
        assert '"step_count":1' in await answering
        assert (await reading).step_count == 1
        await session.close()


class TestClose:
    @pytest.mark.parametrize("environment", [LastingEnvironment, PlainLastingEnvironment])
    @pytest.mark.parametrize("call", ["reset", "step", "metadata", "snapshot", "restore"])
    async def test_the_environment_closes_after_its_call_under_way(
        self, environment: type[LastingEnvironment], call: str
    ) -> None:
        hold = Hold()
        session = await session_of(partial(environment, hold), is_reset=False)
        calls: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "reset": partial(session.reset, {}),
            "step": partial(session.step, {"amount": 1}),
            "metadata": session.metadata,
            "snapshot": session.checkpoint,
            "restore": partial(session.restore, Checkpoint(Snapshot.of({}), session.episode.position)),
        }
        if call == "step":
            hold.released.set()
            await session.reset({})
            hold.released.clear()
            hold.begun.clear()
            hold.noted.clear()
        calling = asyncio.create_task(calls[call]())
        await hold.begun.wait()
        closing = asyncio.create_task(session.close())
        for _ in range(5):  # more than the closing needs to reach the environment
            await asyncio.sleep(0)
        assert session.closed
        hold.released.set()
        await asyncio.gather(calling, closing)
        assert hold.noted == [f"{call} begins", f"{call} ends", "close"]

    @pytest.mark.parametrize("environment", [SplitEnvironment, ThreadedSplitEnvironment])
    async def test_a_reset_that_has_looked_for_its_split_begins_no_episode(
        self, environment: type[SplitEnvironment]
    ) -> None:
        """It waits for two calls of the environment, and the session closes between them."""
        begun, released, noted = threading.Event(), threading.Event(), list[str]()
        session = await session_of(partial(environment, begun, released, noted), is_reset=False)
        resetting = asyncio.create_task(session.reset({"split": "train"}))
        await asyncio.to_thread(begun.wait, 60)
        closing = asyncio.create_task(session.close())
        await asyncio.sleep(0)
        assert session.closed
        released.set()
        with pytest.raises(SessionNotFoundError, match="has ended"):
            await resetting
        await closing
        assert noted == ["list_splits", "close"]

    async def test_requests_of_a_closed_session_reach_no_environment(self) -> None:
        threads = set(threading.enumerate())
        session = await session_of(ThreadedCounterEnvironment)
        checkpoint = Checkpoint(Snapshot.of({}), session.episode.position)
        await session.close()
        for call in (
            session.metadata(),
            session.tasks("list_splits"),
            session.checkpoint(),
            session.restore(checkpoint),
            session.copy_environment(ThreadExecutor("copy"), "copy"),
            session.render(),
            session.begin({}),
        ):
            with pytest.raises(SessionNotFoundError, match="has ended"):
                await call
        for thread in set(threading.enumerate()) - threads:  # the environment's, which ends
            thread.join(60)
        assert set(threading.enumerate()) <= threads


class TestWithoutACoroutine:
    async def test_reset_and_step(self) -> None:
        session = await session_of(CounterEnvironment)
        assert '"total":0' in str(session.handle("reset", {}))
        assert '"total":3' in str(session.handle("step", {"amount": 3}))
        await session.close()

    async def test_what_the_models_raise_fails_the_step(self) -> None:
        for environment, action in ((CounterEnvironment, PickyAdd), (RewardlessEnvironment, Add)):
            session = await session_of(environment, action)
            with pytest.raises(EnvironmentFailedError):
                session.handle("step", {"amount": 2})
            with pytest.raises(InvalidRequestError):
                session.handle("step", {})
            await session.close()

    async def test_a_plain_step_may_return_something_to_await(self) -> None:
        session = await session_of(AwaitedEnvironment)
        later = session.handle("step", {"amount": 3})
        assert isinstance(later, Awaitable)
        assert '"total":3' in nested(await later)
        for amount, error in ((9, EnvironmentFailedError), (0, EnvironmentFailedError), (-1, IllegalActionError)):
            later = session.handle("step", {"amount": amount})
            assert isinstance(later, Awaitable)
            with pytest.raises(error):
                await later
        await session.close()


class Telling(Total):
    """Tells in which thread it is written, to what it was made with."""

    text: str = ""
    _written_in: list[int] = PrivateAttr()

    @field_serializer("text")
    def write(self, text: str) -> str:
        self._written_in.append(threading.get_ident())
        return text


class TellingState(State):
    text: str = ""
    _written_in: list[int] = PrivateAttr()

    @field_serializer("text")
    def write(self, text: str) -> str:
        self._written_in.append(threading.get_ident())
        return text


class TellingEnvironment(ThreadedCounterEnvironment):
    """Returns long observations and states, unless the amount is 1."""

    def __init__(self, written_in: list[int]) -> None:
        super().__init__()
        self._written_in = written_in
        self._text = ""

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Telling:
        self._counter.begin()
        return self.observation("x" * (seed or 0))

    def step(self, action: Add) -> Telling:
        return self.observation("" if action.amount == 1 else "x" * 2_000_000)

    def observation(self, text: str) -> Telling:
        self._text = text
        told = Telling(total=0, text=text)
        told._written_in = self._written_in
        return told

    @property
    def state(self) -> State:
        told = TellingState(text=self._text)
        told._written_in = self._written_in
        return told


class AsyncTellingEnvironment(TellingEnvironment):
    async def step(self, action: Add) -> Telling:  # type: ignore[override]
        return super().step(action)


@pytest.mark.level("files")
@pytest.mark.parametrize("environment", [TellingEnvironment, AsyncTellingEnvironment])
async def test_a_long_answer_is_written_in_a_thread_while_the_event_loop_goes_on(environment: type) -> None:
    written_in: list[int] = []
    session, here = await session_of(partial(environment, written_in)), threading.get_ident()
    for kind, data, is_aside in (
        ("reset", {"seed": 2_000_000}, True),
        ("state", {}, True),
        ("step", {"amount": 1}, False),
        ("state", {}, False),
        ("step", {"amount": 2}, True),
    ):
        written_in.clear()
        text = await answer(session, kind, data)
        assert len(text) > 2_000_000 * is_aside
        assert len(written_in) == 1
        assert (written_in[0] != here) is is_aside, kind
    assert session.episode.step_count == 2
    await session.close()


async def test_a_long_answer_that_can_t_be_written_is_an_error_after_the_step() -> None:
    class Unsendable(ThreadedCounterEnvironment):
        def step(self, action: Add) -> Any:
            return Anything(value=["x" * 2_000_000, object()])

    session = await session_of(Unsendable)
    with pytest.raises(EnvironmentFailedError, match=r"cannot be sent as JSON: Anything\.value\.1"):
        await answer(session, "step", {"amount": 1})
    assert session.episode.step_count == 1
    await session.close()


@pytest.mark.parametrize("environment", [ListingEnvironment, ThreadedListingEnvironment])
async def test_a_list_of_tools_is_no_step_where_it_is_one_action_of_several(environment: type) -> None:
    union = action_model(Add | ListToolsAction)
    assert union is not None
    types = EnvironmentTypes(union, Total, State)
    sessions = SessionManager(EnvironmentFactory(environment), types, ServerConfig())
    session = await sessions.open()
    assert isinstance((await session.step({"type": "list_tools"})).observation, ListToolsObservation)
    await session.reset({})
    await session.step({"type": "list_tools"})
    assert session.episode.step_count == 0
    await session.step({"amount": 2})
    assert session.episode.step_count == 1
    await sessions.close_all()
