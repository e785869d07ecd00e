import pytest
from pydantic import ValidationError

from catch_env import CatchAction, CatchObservation


@pytest.mark.parametrize("move", ["left", "stay", "right"])
def test_the_three_words_are_moves(move: str) -> None:
    assert CatchAction.model_validate({"move": move}).move == move


@pytest.mark.parametrize("fields", [{}, {"move": "up"}, {"move": "LEFT"}, {"move": 0}, {"move": ""}, {"move": " left"}])
def test_nothing_else_is(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        CatchAction.model_validate(fields)


@pytest.mark.parametrize(("ball", "paddle", "row"), [(5, 0, 0), (0, 5, 0), (0, 0, 10), (-1, 0, 0)])
def test_an_observation_stays_on_the_board(ball: int, paddle: int, row: int) -> None:
    with pytest.raises(ValidationError):
        CatchObservation(ball=ball, paddle=paddle, row=row)


def test_a_number_is_refused_with_where_to_play_by_numbers() -> None:
    with pytest.raises(
        ValidationError, match="got the action_id 1; for moves by number, play catch in the environment openspiel"
    ):
        CatchAction.model_validate({"action_id": 1, "game_name": "catch", "game_params": {}})
