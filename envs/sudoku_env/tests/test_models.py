import pytest
from pydantic import ValidationError

from sudoku_env import SudokuAction, SudokuState

RIGHT = {"row": 1, "col": 2, "number": 3}


@pytest.mark.parametrize("name", ["row", "col", "number"])
@pytest.mark.parametrize("value", [0, 10, -1, 1.5, "one", None])
def test_rows_columns_and_digits_go_from_1_to_9(name: str, value: object) -> None:
    with pytest.raises(ValidationError):
        SudokuAction.model_validate({**RIGHT, name: value})


def test_nothing_is_missing_and_nothing_more_is_taken() -> None:
    for fields in ({"row": 1, "col": 1}, {**RIGHT, "hint": True}):
        with pytest.raises(ValidationError):
            SudokuAction.model_validate(fields)
    assert SudokuAction.model_validate(RIGHT) == SudokuAction(row=1, col=2, number=3)


def test_the_state_has_no_place_for_the_solution() -> None:
    assert set(SudokuState.model_fields) == {
        "episode_id",
        "step_count",
        "difficulty",
        "board",
        "clues",
        "max_moves",
        "solved",
    }
