"""Requests of either wire, carried out: what the author's own models raise stays with its session."""

from collections.abc import Awaitable
from typing import Any

import pytest
from pydantic import BaseModel, field_validator
from tests.environments import Add, CounterEnvironment, ThreadedCounterEnvironment, Total

from openenv.core.env_server.dispatch import answer, answer_now
from openenv.core.env_server.environment_types import EnvironmentFactory, EnvironmentTypes
from openenv.core.env_server.limits import Limits
from openenv.core.env_server.session import Session
from openenv.core.env_server.sessions import Sessions
from openenv.core.env_server.types import State
from openenv.core.exceptions import EnvironmentFailedError, IllegalActionError, InvalidRequestError, ResetNeededError


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


async def session_of(environment: type, action: type[Add] = Add) -> Session:
    factory = EnvironmentFactory(environment)
    session = await Sessions(factory, EnvironmentTypes(action, Total, State), Limits()).open()
    await answer(session, "reset", {})
    return session


class TestAnswer:
    async def test_each_kind(self) -> None:
        session = await session_of(ThreadedCounterEnvironment)
        assert await answer(session, "reset", {"seed": 1}) == (
            "observation",
            '{"observation":{"metadata":{"seed":1},"total":0},"reward":null,"done":false,"metadata":{"seed":1}}',
        )
        assert await answer(session, "step", {"amount": 2}) == (
            "observation",
            '{"observation":{"metadata":{},"total":2},"reward":2,"done":false}',
        )
        assert await answer(session, "state", {}) == ("state", '{"episode_id":null,"step_count":1}')
        call = {"name": "add", "arguments": {"amount": 1}}
        kind, data = await answer(session, "mcp", {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call})
        assert (kind, '"id":7' in data, '"total":3' in data) == ("mcp", True, True)
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
        assert '"total":1' in (await answer(session, "step", {"amount": 1}))[1]
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


class TestAnswerNow:
    async def test_reset_and_step(self) -> None:
        session = await session_of(CounterEnvironment)
        assert '"total":0' in str(answer_now(session, "reset", {}))
        assert '"total":3' in str(answer_now(session, "step", {"amount": 3}))
        await session.close()

    async def test_what_the_models_raise_fails_the_step(self) -> None:
        for environment, action in ((CounterEnvironment, PickyAdd), (RewardlessEnvironment, Add)):
            session = await session_of(environment, action)
            with pytest.raises(EnvironmentFailedError):
                answer_now(session, "step", {"amount": 2})
            with pytest.raises(InvalidRequestError):
                answer_now(session, "step", {})
            await session.close()

    async def test_a_plain_step_may_return_something_to_await(self) -> None:
        session = await session_of(AwaitedEnvironment)
        later = answer_now(session, "step", {"amount": 3})
        assert isinstance(later, Awaitable)
        assert '"total":3' in await later
        for amount, error in ((9, EnvironmentFailedError), (0, EnvironmentFailedError), (-1, IllegalActionError)):
            later = answer_now(session, "step", {"amount": amount})
            assert isinstance(later, Awaitable)
            with pytest.raises(error):
                await later
        await session.close()
