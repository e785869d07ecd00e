import pytest
from pydantic import ValidationError

from blackjack_env import BlackjackAction


@pytest.mark.parametrize(("move", "number"), [("hit", 0), ("stand", 1)])
def test_the_words_are_in_the_order_of_openspiels_numbers(move: str, number: int) -> None:
    assert BlackjackAction.model_validate({"move": move}).action_id == number


@pytest.mark.parametrize("fields", [{}, {"move": "double"}, {"move": "Hit"}, {"move": 0}, {"action_id": 2}])
def test_nothing_else_is_a_move(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        BlackjackAction.model_validate(fields)
