"""One game of OpenSpiel, fixed when the environment is made."""

import pytest

from openenv.adapters.openspiel import OpenSpielAction, OpenSpielEnvironment
from openenv.core.exceptions import InvalidRequestError


def test_every_reset_starts_the_game_that_it_was_made_for() -> None:
    env = OpenSpielEnvironment("go", {"board_size": 5})
    for _ in range(2):
        assert len(env.reset(seed=1).legal_actions) == 26
        assert (env.state.game_name, env.state.game_params) == ("go", {"board_size": 5})


def test_another_seat_and_policy_play() -> None:
    env = OpenSpielEnvironment("tic_tac_toe", agent_player=1, opponent_policy="last")
    observation = env.reset(seed=1)
    assert (observation.current_player_id, observation.opponent_last_action) == (1, 8)
    assert env.step(OpenSpielAction(action_id=0)).opponent_last_action == 7


def test_a_wrong_game_is_refused_at_the_reset() -> None:
    with pytest.raises(InvalidRequestError, match="did you mean tic_tac_toe"):
        OpenSpielEnvironment("tictactoe").reset()
