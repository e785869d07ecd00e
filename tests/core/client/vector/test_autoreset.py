"""Episodes that end: with and without autoreset every slot does what a session alone would do."""

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.environments.common import GOAL
from tests.support.vectors import ONE, WIRES, make_server, shown, total

from openenv.core.client.blocking import background_loop
from openenv.core.client.generic import GenericEnvClient
from openenv.core.client.vector import SyncVectorEnv
from openenv.core.exceptions import EpisodeOrderError, OpenEnvError, RequestRejectedError, ServerExecutionError

pytestmark = pytest.mark.timeout(180)


class TestAutoreset:
    def test_the_step_after_the_end_resets_with_the_same_task_and_no_seed(self, client: Any) -> None:
        vector = client.vector(2, autoreset=True)
        task = {"level": 3, "parts": [1]}
        vector.reset(seeds=[1, 2], tasks=[task, None])
        task["parts"] = "changed since"
        first, other = vector.step([{"amount": GOAL}, ONE])
        assert (first.done, other.done) == (True, False)
        first, other = vector.step([ONE, ONE])
        assert (total(first), first.reward, first.done, first.metadata) == (0, None, False, {"level": 3, "parts": [1]})
        assert (total(other), other.reward) == (2, 1)
        assert shown(vector.step([ONE, ONE])) == [1, 3]

    def test_a_reset_by_hand_counts(self, client: Any) -> None:
        vector = client.vector(2, autoreset=True)
        vector.reset()
        vector.step([{"amount": GOAL}] * 2)
        vector.reset(slots=[0])
        assert shown(vector.step([ONE, ONE])) == [1, 0]

    def test_a_task_that_was_never_sent_is_not_the_last_one(self, client: Any) -> None:
        vector = client.vector(2, autoreset=True)
        vector.reset(tasks=[{"level": 1}] * 2)
        with pytest.raises(ValueError, match="surrogates"):
            vector.reset(tasks=[{"level": 2}, {"level": "\ud800"}])
        vector.step([{"amount": GOAL}] * 2)
        assert [result.metadata for result in vector.step([ONE] * 2)] == [{"level": 1}] * 2

    def test_a_slot_that_is_skipped_is_reset_when_it_is_stepped(self, client: Any) -> None:
        vector = client.vector(2, autoreset=True)
        vector.reset()
        vector.step([{"amount": GOAL}, ONE])
        assert shown(vector.step([None, ONE])) == [None, 2]
        assert shown(vector.step([ONE, None])) == [0, None]

    def test_a_step_before_any_reset_is_mended_by_the_next(self, client: Any) -> None:
        vector = client.vector(2, autoreset=True)
        assert shown(vector.step([ONE] * 2)) == [EpisodeOrderError] * 2
        assert shown(vector.step([ONE] * 2)) == [0, 0]

    def test_calls_at_the_same_time_each_know_how_the_one_before_ended(self, client: Any) -> None:
        vector = client.vector(2, autoreset=True)
        vector.reset()

        async def step_all() -> list[Any]:
            return await asyncio.gather(*(vector.vector.step([{"amount": GOAL}, ONE]) for _ in range(5)))

        calls = background_loop().run(step_all())
        assert [shown(results) for results in calls] == [[10, 1], [0, 2], [10, 3], [0, 4], [10, 5]]


class SlotModel:
    """What a slot of counters does, with or without autoreset."""

    def __init__(self, autoreset: bool) -> None:
        self.autoreset = autoreset
        self.total = 0
        self.over = False
        self.ended = False

    def reset(self, seed: int | None) -> Any:
        self.total, self.over, self.ended = 0, False, False
        return (0, None, False, None if seed is None else {"seed": seed})

    def step(self, amount: int | None) -> Any:
        if amount is None:
            return None
        if self.autoreset and self.ended:
            return self.reset(None)
        if self.over:
            self.ended = True
            return EpisodeOrderError
        if amount < 0:
            return RequestRejectedError
        if amount == 0:
            self.ended = True
            return ServerExecutionError
        self.total += amount
        self.over = self.ended = self.total >= GOAL
        return (self.total, amount, self.over, None)


def told(result: Any) -> Any:
    if result is None or isinstance(result, OpenEnvError):
        return result and type(result)
    return (total(result), result.reward, result.done, result.metadata)


SLOTS = 3
AMOUNTS = st.one_of(st.none(), st.integers(-1, 1), st.integers(3, 9))
CALLS = st.one_of(
    st.tuples(st.just("step"), st.lists(AMOUNTS, min_size=SLOTS, max_size=SLOTS)),
    st.tuples(st.just("reset"), st.dictionaries(st.integers(0, SLOTS - 1), st.one_of(st.none(), st.integers(0, 99)))),
)


class TestModel:
    """Whatever is called in whatever order, every slot does what a session alone would do."""

    @pytest.fixture(scope="class", params=list(itertools.product(WIRES, (False, True))), ids=str)
    @classmethod
    def played(cls, request: pytest.FixtureRequest) -> Iterator[tuple[SyncVectorEnv[Any, Any, Any], bool]]:
        wire, autoreset = request.param
        with make_server(wire) as server, GenericEnvClient(base_url=server.url).sync() as client:
            yield client.vector(SLOTS, autoreset=autoreset), autoreset

    @settings(max_examples=60)
    @given(calls=st.lists(CALLS, max_size=25))
    def test_calls(self, played: tuple[SyncVectorEnv[Any, Any, Any], bool], calls: list[Any]) -> None:
        vector, autoreset = played
        models = [SlotModel(autoreset) for _ in range(SLOTS)]
        for model in models:
            model.reset(None)
        vector.reset()
        for call, given_to in calls:
            if call == "step":
                actions = [None if amount is None else {"amount": amount} for amount in given_to]
                expected = [model.step(amount) for model, amount in zip(models, given_to, strict=True)]
                assert [told(result) for result in vector.step(actions)] == expected
            else:
                expected = [models[slot].reset(given_to[slot]) if slot in given_to else None for slot in range(SLOTS)]
                results = vector.reset(slots=list(given_to), seeds=list(given_to.values()))
                assert [told(result) for result in results] == expected
