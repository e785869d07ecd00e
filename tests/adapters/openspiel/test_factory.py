"""From a game's id to its environment, here and in other processes."""

import pickle

import pytest
from tests.support.servers import RunningServer

from openenv import GenericEnvClient
from openenv.adapters.openspiel import OpenSpielAction, environment_for
from openenv.adapters.targets import find_adapted
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError


def test_parameters_reach_the_game_and_its_players() -> None:
    env = environment_for("connect_four?rows=5&seat=1&opponents=last")()
    observation = env.reset(seed=1)
    assert (observation.current_player_id, observation.opponent_last_action) == (1, 6)
    assert env.state.game_params == {"rows": 5}


def test_without_opponents_the_client_plays_every_player() -> None:
    env = environment_for("tic_tac_toe?opponents=none")()
    first = env.reset(seed=1)
    second = env.step(OpenSpielAction(action_id=first.legal_actions[0]))
    assert (first.current_player_id, second.current_player_id) == (0, 1)


@pytest.mark.parametrize(
    ("game_id", "says"),
    [
        ("tic_tac_toe?seat=2", "Expected seat of openspiel:tic_tac_toe to be from 0 to 1, got 2"),
        ("tic_tac_toe?seat=x", "got 'x'"),
        ("tic_tac_toe?opponents=clever", "one of none, random, first, last, middle, got 'clever'"),
        ("catch?rows=0", "catch cannot be played with"),
        ("catch?height=3", "catch cannot be played with"),
    ],
)
def test_wrong_parameters_are_refused_before_it_is_served(game_id: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        environment_for(game_id)


def test_an_unknown_game_lists_close_ones() -> None:
    with pytest.raises(EnvironmentNotFoundError, match="did you mean tic_tac_toe"):
        environment_for("tictactoe")


def test_it_runs_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pickle.loads(pickle.dumps(environment_for("catch")))().reset(seed=1).legal_actions == [0, 1, 2]
    monkeypatch.setenv("OPENENV_ISOLATION", "process")
    with (
        RunningServer(find_adapted("openspiel:catch?columns=3").app()) as server,
        server.http() as http,
        GenericEnvClient(base_url=server.url).sync() as client,
    ):
        assert http.get("/metadata").json()["name"] == "openspiel:catch"
        assert client.reset(seed=1).observation["legal_actions"] == [0, 1, 2]
        assert client.step({"action_id": 1}).reward == 0.0
