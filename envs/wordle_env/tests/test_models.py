import pytest
from pydantic import ValidationError

from wordle_env import WordleAction, WordleState


@pytest.mark.parametrize("fields", [{}, {"word": ""}, {"word": None}, {"word": "a" * 33}, {"word": "a", "hint": True}])
def test_an_action_is_one_short_word(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        WordleAction.model_validate(fields)


def test_the_state_has_no_place_for_the_secret() -> None:
    assert set(WordleState.model_fields) == {
        "episode_id",
        "step_count",
        "word_length",
        "max_guesses",
        "guesses",
        "solved",
    }
