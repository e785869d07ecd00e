import pytest
from pydantic import ValidationError

from openenv.adapters.openspiel import OpenSpielAction, OpenSpielObservation, OpenSpielState


def test_the_public_fields_and_defaults_are_there() -> None:
    assert OpenSpielAction(action_id=1).model_dump() == {
        "metadata": {},
        "action_id": 1,
        "game_name": "catch",
        "game_params": {},
    }
    observation = OpenSpielObservation(info_state=[0.5], legal_actions=[1])
    assert (observation.game_phase, observation.current_player_id, observation.opponent_last_action) == (
        "playing",
        0,
        None,
    )
    assert OpenSpielState().model_dump() == {
        "episode_id": None,
        "step_count": 0,
        "game_name": "catch",
        "agent_player": 0,
        "opponent_policy": "random",
        "game_params": {},
        "num_players": 1,
    }


def test_an_observation_of_a_public_server_has_no_text() -> None:
    public = {"info_state": [1.0], "legal_actions": [0], "game_phase": "terminal", "current_player_id": -4}
    assert OpenSpielObservation.model_validate(public).text == ""


@pytest.mark.parametrize("fields", [{}, {"action_id": -1}, {"action_id": "left"}, {"action_id": 1, "move": 2}])
def test_an_action_is_an_id(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        OpenSpielAction.model_validate(fields)
