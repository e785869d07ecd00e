"""Components of rewards: they reach clients of every wire, and rubrics' states survive copies, snapshots, recovery."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.support.environments.graded import (
    AwaitedGradedWalk,
    GradedJourney,
    GradedWalk,
    InlineGradedWalk,
    MappedJourney,
    Spot,
    Walk,
    released,
)
from tests.support.ors_wire import OrsWire
from tests.support.servers import RunningServer
from tests.support.walkers import Walker, crash_image

from openenv.core.client.generic import GenericEnvClient
from openenv.core.client_types import StepResult
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import OpenEnvError

Isolation = Literal["none", "process"]
in_either_place = pytest.mark.parametrize("isolation", ["none", "process"])


def serve(environment: type[GradedWalk], isolation: Isolation = "none", **settings: Any) -> RunningServer:
    app = create_fastapi_app(environment, Walk, Spot, isolation=isolation, max_concurrent_envs=16, **settings)
    return RunningServer(app)


@pytest.fixture(scope="module", params=["none", "process"])
def server(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    with serve(GradedWalk, request.param) as server:
        yield server


@pytest.fixture(scope="module")
def plain_server() -> Iterator[RunningServer]:
    with serve(GradedWalk) as server:
        yield server


class TestClients:
    def test_results_have_components_and_weights(self, server: RunningServer) -> None:
        with GenericEnvClient(server.url).sync() as client:
            first = client.reset()
            result = client.step({"length": 2})
            last = client.step({"length": 2})
        assert (first.reward_components, first.reward_weights, first.step_rewards) == ({}, {}, None)
        assert (result.reward, result.reward_components) == (0.125, {"stride": 0.5, "arrival": 0.0})
        assert result.reward_weights == {"stride": 0.25, "arrival": 0.75}
        assert (last.reward, last.reward_components) == (0.875, {"stride": 0.5, "arrival": 1.0})

    def test_the_legacy_wire_has_them_in_the_metadata(self, server: RunningServer) -> None:
        with server.wire() as wire:
            wire.reset()
            metadata = wire.step(length=2)["data"]["metadata"]
        assert metadata["reward_signals"] == {"stride": 0.5, "arrival": 0.0}
        assert metadata["reward_weights"] == {"stride": 0.25, "arrival": 0.75}

    @pytest.mark.parametrize(
        ("length", "message"),
        [
            (-1, "raised ValueError: backwards"),
            (-2, "finite number"),
            (-3, "a number from forward, got 'far'"),
            (-5, "raised SystemExit: 3"),
        ],
    )
    def test_a_component_without_a_score_fails_the_step_and_no_more(
        self, server: RunningServer, length: int, message: str
    ) -> None:
        with GenericEnvClient(server.url).sync() as client:
            client.reset()
            with pytest.raises(OpenEnvError, match=f"The reward component 'stride' .*{message}"):
                client.step({"length": length})
            assert client.step({"length": 4}).reward == 1.0

    def test_a_server_for_its_author_adds_the_line_to_the_component(self) -> None:
        """The line alone, as for other errors, would not say which component it was."""
        with serve(GradedWalk, debug=True) as server, GenericEnvClient(server.url).sync() as client:
            client.reset()
            with pytest.raises(
                OpenEnvError, match=r"component 'stride' raised ValueError: backwards \(.*, line \d+, in"
            ):
                client.step({"length": -1})

    def test_metadata_in_the_observation_is_read_too(self) -> None:
        shown = {"metadata": {"reward_signals": {"format": 1, "note": "none", "flag": True}}}
        assert StepResult(shown).reward_components == {"format": 1.0}
        assert StepResult(Spot(metadata=shown["metadata"])).reward_components == {"format": 1.0}
        assert StepResult({}, metadata={"step_rewards": [1, 0.5]}).step_rewards == [1.0, 0.5]
        assert StepResult({}, metadata={"step_rewards": ["?"], "reward_signals": 7}).step_rewards is None


@pytest.mark.parametrize(
    ("environment", "isolation"), [(GradedWalk, "none"), (GradedWalk, "process"), (InlineGradedWalk, "process")]
)
def test_a_component_that_does_not_end_is_named(environment: type[GradedWalk], isolation: Isolation) -> None:
    with (
        serve(environment, isolation, step_timeout_s=1.0) as server,
        GenericEnvClient(server.url).sync() as client,
    ):
        client.reset()
        with pytest.raises(OpenEnvError, match="The reward component 'stride' did not return"):
            client.step({"length": -4})
        released.set()
        try:
            client.reset()
            assert client.step({"length": 4}).reward == 1.0
        finally:
            released.clear()


@in_either_place
def test_an_awaited_component_that_exits_ends_its_step_alone(isolation: Isolation) -> None:
    with serve(AwaitedGradedWalk, isolation) as server, GenericEnvClient(server.url).sync() as client:
        client.reset()
        with pytest.raises(OpenEnvError, match="The reward component 'stride' raised SystemExit: 3"):
            client.step({"length": -5})
        assert client.step({"length": 4}).reward == 1.0


def test_agents_get_the_components_and_not_what_they_rest_on(plain_server: RunningServer) -> None:
    with plain_server.http() as http:
        call = {"name": "walk", "arguments": {"length": 4}}
        answer = http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    assert answer.json()["result"]["meta"] == {
        "openenv/reward": 1.0,
        "openenv/done": True,
        "openenv/reward_components": {"stride": 1.0, "arrival": 1.0},
    }
    assert "solution" not in answer.text


def test_trainers_on_ors_get_the_components(plain_server: RunningServer) -> None:
    with OrsWire(plain_server) as wire:
        wire.begin()
        output = wire.call("walk", length=2)["output"]
    assert output["reward"] == 0.125
    assert output["metadata"]["reward_signals"] == {"stride": 0.5, "arrival": 0.0}


@in_either_place
@pytest.mark.parametrize("environment", [GradedJourney, MappedJourney])
class TestStates:
    def test_forks_score_the_whole_episode(self, environment: type[GradedWalk], isolation: Isolation) -> None:
        with serve(environment, isolation) as server, server.v1() as wire:
            parent = Walker.open(wire)
            parent.reset()
            parent.step(1)
            (child,) = parent.fork(1)
            parent.step(1)
            ends = [walker.step(3) for walker in (parent, child)]
        assert [end["reward"] for end in ends] == [3.0, 2.0]
        assert [end["metadata"]["step_rewards"] for end in ends] == [[0.75, 1.5, 3.0], [1.0, 2.0]]

    def test_a_recovered_session_scores_the_whole_episode(
        self, environment: type[GradedWalk], isolation: Isolation, tmp_path: Path
    ) -> None:
        journal = tmp_path / "journal"
        with serve(environment, isolation, journal=journal) as server, server.v1() as wire:
            walker = Walker.open(wire)
            walker.reset()
            walker.step(1)
            walker.step(1)
            with serve(environment, isolation, journal=crash_image(journal)) as again, again.v1() as other:
                walker.attach(other)
                end = walker.step(2)
        assert (end["reward"], end["metadata"]["step_rewards"]) == (3.0, [0.75, 1.5, 3.0])
        assert end["metadata"]["reward_signals"] == {"stride": 0.5}
