import pytest
from pydantic import ValidationError

from textarena_env import TextArenaAction, TextArenaState


@pytest.mark.parametrize(
    "fields", [{}, {"message": None}, {"message": 5}, {"message": "a" * 100_001}, {"message": "[a]", "hint": True}]
)
def test_an_action_is_one_text(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TextArenaAction.model_validate(fields)


def test_an_empty_text_is_one_too() -> None:
    assert TextArenaAction(message="").message == ""


def test_the_state_has_the_public_fields_and_no_place_for_secrets() -> None:
    assert set(TextArenaState.model_fields) == {
        "episode_id",
        "step_count",
        "env_id",
        "num_players",
        "max_turns",
        "turn",
        "last_reward",
        "last_info",
        "raw_state",
    }
