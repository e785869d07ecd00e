import pytest
from pydantic import ValidationError

from game_2048_env import Game2048Action


@pytest.mark.parametrize(("move", "number"), [("up", 0), ("right", 1), ("down", 2), ("left", 3)])
def test_the_words_are_in_the_order_of_openspiels_numbers(move: str, number: int) -> None:
    assert Game2048Action.model_validate({"move": move}).action_id == number


@pytest.mark.parametrize("fields", [{}, {"move": "north"}, {"move": "UP"}, {"move": 0}, {"action_id": 4}])
def test_nothing_else_is_a_move(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Game2048Action.model_validate(fields)
