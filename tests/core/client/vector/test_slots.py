"""What each slot of a vector gets, and what is its own fault alone."""

from functools import partial
from typing import Any

import numpy
import pytest
from tests.conftest import Serve
from tests.support.environments.common import GOAL, Add, Do, InlineMischievousEnvironment, Shown, Total
from tests.support.servers import RunningServer
from tests.support.vectors import BREAKING, ONE, REFUSED, make_server, play, shown, total

from openenv.core.client.generic import GenericEnvClient
from openenv.core.client.results import StepResult
from openenv.core.client.typed import TypedEnvClient
from openenv.core.env_server.types import State
from openenv.core.exceptions import (
    ConfigurationError,
    EpisodeOrderError,
    InvalidAnswerError,
    RequestRejectedError,
    ServerError,
    ServerExecutionError,
)

pytestmark = pytest.mark.timeout(180)


class TestReset:
    def test_seeds_and_tasks_go_to_their_slots(self, client: Any) -> None:
        vector = client.vector(4)
        results = vector.reset(seeds=[5, None, 7, 8], tasks=[{"goal": 1}, None, {}, {"goal": 2, "level": "x"}])
        assert [result.metadata for result in results] == [
            {"seed": 5, "goal": 1},
            None,
            {"seed": 7},
            {"seed": 8, "goal": 2, "level": "x"},
        ]
        assert [(total(result), result.reward, result.done) for result in results] == [(0, None, False)] * 4

    def test_nothing_given_resets_all(self, client: Any) -> None:
        vector = client.vector(3)
        assert play(vector, [ONE, {"amount": 2}, {"amount": 3}]) == [1, 2, 3]
        assert shown(vector.reset()) == [0, 0, 0]

    def test_slots_leave_the_others_as_they_are(self, client: Any) -> None:
        vector = client.vector(4)
        play(vector, [ONE] * 4)
        results = vector.reset(slots=[3, 1], seeds=[30, 10], tasks=[{"slot": 3}, {"slot": 1}])
        assert results[0] is results[2] is None
        assert (results[1].metadata, results[3].metadata) == ({"seed": 10, "slot": 1}, {"seed": 30, "slot": 3})
        assert shown(vector.step([ONE] * 4)) == [2, 1, 2, 1]

    def test_no_slots_at_all(self, client: Any) -> None:
        assert client.vector(2).reset(slots=[]) == [None, None]

    @pytest.mark.parametrize("seeds", [range(3), (0, 1, 2), numpy.arange(3), numpy.array([0, 1, 2], dtype=numpy.uint8)])
    def test_any_sequence_of_integers_are_seeds(self, client: Any, seeds: Any) -> None:
        results = client.vector(3).reset(seeds=seeds, slots=numpy.arange(3))
        assert [result.metadata["seed"] for result in results] == [0, 1, 2]

    @pytest.mark.parametrize("seed", [1.5, "1", [1]])
    def test_what_is_no_integer_is_no_seed(self, client: Any, seed: Any) -> None:
        vector = client.vector(2)
        with pytest.raises(TypeError):
            vector.reset(seeds=[1, seed])
        assert shown(vector.reset(seeds=[1, 2])) == [0, 0]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"seeds": [1]}, "Expected 3 seeds, one for each slot; got 1"),
            ({"seeds": [1, 2, 3, 4]}, "Expected 3 seeds"),
            ({"tasks": []}, "Expected 3 tasks, one for each slot; got 0"),
            ({"slots": [0, 1], "seeds": [1, 2, 3]}, "Expected 2 seeds"),
            ({"slots": [0], "tasks": [{}, {}]}, "Expected 1 tasks"),
            ({"slots": [0, 0]}, "Expected different slots from 0 to 2"),
            ({"slots": [3]}, "Expected different slots from 0 to 2"),
            ({"slots": [-1]}, "Expected different slots from 0 to 2"),
        ],
    )
    def test_what_does_not_fit_is_refused_whole(self, client: Any, arguments: Any, message: str) -> None:
        vector = client.vector(3)
        play(vector, [ONE] * 3)
        with pytest.raises(ConfigurationError, match=message):
            vector.reset(**arguments)
        assert shown(vector.step([ONE] * 3)) == [2, 2, 2]

    def test_one_refused_reset_leaves_its_episode_and_the_others(self, client: Any) -> None:
        vector = client.vector(3)
        play(vector, [ONE] * 3)
        results = vector.reset(tasks=[{}, {"level": 0}, {}])
        assert [type(result) for result in results] == [StepResult, RequestRejectedError, StepResult]
        assert shown(vector.step([ONE] * 3)) == [1, 2, 1]


class TestStep:
    def test_none_skips_a_slot(self, client: Any) -> None:
        vector = client.vector(3)
        assert play(vector, [ONE, None, {"amount": 3}]) == [1, None, 3]
        assert shown(vector.step([None, {"amount": 4}, None])) == [None, 4, None]
        assert vector.step([None] * 3) == [None] * 3
        assert shown(vector.step([ONE] * 3)) == [2, 5, 4]

    @pytest.mark.parametrize("count", [0, 2, 4])
    def test_other_than_an_action_for_each_slot_is_refused_whole(self, client: Any, count: int) -> None:
        vector = client.vector(3)
        play(vector)
        with pytest.raises(ConfigurationError, match=f"Expected 3 actions, one for each slot; got {count}"):
            vector.step([ONE] * count)
        assert shown(vector.step([ONE] * 3)) == [1, 1, 1]

    def test_what_is_refused_or_fails_is_its_slot_s_alone(self, client: Any) -> None:
        vector = client.vector(5)
        assert play(vector, [ONE, REFUSED, BREAKING, {"amont": 1}, ONE]) == [
            1,
            RequestRejectedError,
            ServerExecutionError,
            RequestRejectedError,
            1,
        ]
        assert shown(vector.step([ONE] * 5)) == [2, 1, 1, 1, 2]

    def test_the_end_of_an_episode_is_its_slot_s_alone(self, client: Any) -> None:
        vector = client.vector(3)
        play(vector)
        results = vector.step([{"amount": GOAL}, ONE, ONE])
        assert [result.done for result in results] == [True, False, False]
        assert shown(vector.step([ONE] * 3)) == [EpisodeOrderError, 2, 2]
        assert shown(vector.reset(slots=[0])) == [0, None, None]
        assert shown(vector.step([ONE] * 3)) == [1, 3, 3]

    def test_before_any_reset_every_slot_says_so(self, client: Any) -> None:
        vector = client.vector(2)
        assert shown(vector.step([ONE, ONE])) == [EpisodeOrderError] * 2
        assert shown(vector.reset()) == [0, 0]

    @pytest.mark.parametrize("slot", [0, 1, 2])
    def test_a_message_above_the_server_s_limit_is_its_slot_s_alone(self, serve_on: Serve, slot: int) -> None:
        server = serve_on(max_message_size_mb=0.01)
        with GenericEnvClient(base_url=server.url).sync() as client:
            vector = client.vector(3)
            vector.reset()
            actions = [ONE, ONE, ONE]
            actions[slot] = {"amount": 1, "metadata": {"x": "x" * 20_000}}  # type: ignore[dict-item]
            results = vector.step(actions)
            refused = results.pop(slot)
            assert isinstance(refused, RequestRejectedError)
            assert (refused.code, refused.details["limit"]) == ("TOO_LARGE", 10485)
            assert shown(results) == [1, 1]
            assert shown(vector.step([ONE] * 3)) == [1 if at == slot else 2 for at in range(3)]

    def test_every_message_above_the_server_s_limit(self, serve_on: Serve) -> None:
        server = serve_on(max_message_size_mb=0.01)
        with GenericEnvClient(base_url=server.url).sync() as client:
            vector = client.vector(3)
            vector.reset()
            results = vector.step([{"amount": 1, "metadata": {"x": "x" * 20_000}}] * 3)
            assert shown(results) == [RequestRejectedError] * 3
            assert shown(vector.step([ONE] * 3)) == [1] * 3


class TestAnswers:
    """What comes back may be large, or not what the client can read."""

    def test_an_answer_above_the_client_s_limit_is_its_slot_s_alone(self, serve: Serve) -> None:
        table = {"large": lambda: Shown(value="x" * 200_000)}
        server = serve(partial(InlineMischievousEnvironment, table), Do, Shown)
        with GenericEnvClient(base_url=server.url, max_message_size_mb=0.1).sync() as client:
            vector = client.vector(4)
            vector.reset()
            results: list[Any] = vector.step([{"what": "a"}, {"what": "large"}, None, {"what": "d"}])
            assert isinstance(results[1], ServerError)
            assert (results[1].code, results[1].details["may_have_happened"]) == ("TOO_LARGE", True)
            assert [results[at].observation["value"] for at in (0, 3)] == ["a", "d"]
            again: list[Any] = vector.step([{"what": "e"}] * 4)
            assert [result.observation["value"] for result in again] == ["e"] * 4

    def test_an_answer_above_the_client_s_limit_costs_a_legacy_slot_its_session(self) -> None:
        table = {"large": lambda: Shown(value="x" * 200_000)}
        with (
            make_server("legacy", partial(InlineMischievousEnvironment, table), Do, Shown) as server,
            GenericEnvClient(base_url=server.url, max_message_size_mb=0.1).sync() as client,
        ):
            vector = client.vector(3)
            vector.reset()
            results: list[Any] = vector.step([{"what": "a"}, {"what": "large"}, {"what": "c"}])
            assert [type(result) for result in results] == [StepResult, InvalidAnswerError, StepResult]
            assert all(isinstance(result, StepResult) for result in vector.reset(slots=[1])[1:2])
            again: list[Any] = vector.step([{"what": "e"}] * 3)
            assert [result.observation["value"] for result in again] == ["e"] * 3

    @pytest.mark.parametrize("character", ["x", "é", "語", "🟩"])
    def test_answers_just_below_the_client_s_limit_share_frames(self, serve: Serve, character: str) -> None:
        """A full frame is one of so many characters, each of which may have four bytes."""
        size = 100_000 // len(character.encode())
        server = serve(
            partial(InlineMischievousEnvironment, {"much": lambda: Shown(value=character * size)}),
            Do,
            Shown,
            max_concurrent_envs=17,
        )
        with GenericEnvClient(base_url=server.url, max_message_size_mb=0.1).sync() as client:
            vector = client.vector(16)
            vector.reset()
            results: list[Any] = vector.step([{"what": "much"}] * 16)
            assert [len(result.observation["value"]) for result in results] == [size] * 16

    def test_1024_slots_of_50_kb(self, serve_on: Serve, wire: str) -> None:
        count = 1024 if wire == "v1" else 128
        table = {"much": lambda: Shown(value="x" * 50_000)}
        server = serve_on(
            partial(InlineMischievousEnvironment, table), Do, Shown, max_concurrent_envs=count, max_message_size_mb=0.1
        )
        client: Any = GenericEnvClient(base_url=server.url)
        vector = client.vector(count)
        vector.reset()
        results = vector.step([{"what": "much"}] * count)
        assert {len(result.observation["value"]) for result in results} == {50_000}
        # And as much the other way.
        results = vector.step([{"what": f"{slot}".rjust(50_000)} for slot in range(count)])
        assert [int(result.observation["value"]) for result in results] == list(range(count))
        client.close()

    def test_a_result_that_the_client_cannot_read_is_its_slot_s_alone(self, client: Any, server: RunningServer) -> None:
        class Picky(GenericEnvClient):
            def _parse_result(self, payload: dict[str, Any]) -> StepResult[dict[str, Any]]:
                result = super()._parse_result(payload)
                if result.observation["total"] == 2:
                    raise KeyError("deuce")
                return result

        with Picky(base_url=server.url).sync() as picky:
            vector = picky.vector(3)
            assert play(vector, [ONE, {"amount": 2}, ONE]) == [1, InvalidAnswerError, 1]
            error: Any = vector.step([None, ONE, None])[1]
            assert total(error) == 3
            vector.reset()
            error = vector.step([None, {"amount": 2}, None])[1]
            assert "KeyError('deuce')" in str(error)
            assert isinstance(error.__cause__, KeyError)

    def test_a_typed_client_gives_its_own_classes(self, server: RunningServer) -> None:
        class CounterEnv(TypedEnvClient[Add, Total, State]):
            pass

        with CounterEnv(base_url=server.url).sync() as client:
            vector = client.vector(2)
            first = vector.reset()
            assert [result.observation for result in first] == [Total(total=0)] * 2  # type: ignore[union-attr]
            results = vector.step([Add(amount=4), None])
            assert results == [StepResult(Total(total=4, reward=4), 4, False, None), None]
            with pytest.raises(TypeError, match="Expected Add"):
                vector.step([Add(amount=1), {"amount": 1}])  # type: ignore[list-item]
            assert [result.observation.total for result in vector.step([Add(amount=1)] * 2)] == [5, 1]  # type: ignore[union-attr]
