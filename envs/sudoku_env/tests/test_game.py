import pytest

from sudoku_env.game import Game, cell_at, grid_of, place_of
from sudoku_env.grid import CELLS, candidates, digits
from sudoku_env.puzzles import make_puzzle


def game(max_moves: int = 100) -> Game:
    return Game(make_puzzle(7, "medium"), max_moves)


def test_a_right_digit_is_written() -> None:
    playing = game()
    cell = cell_at(1, 3)
    outcome = playing.play(cell, playing.puzzle.solution[cell])
    assert outcome.correct
    assert outcome.message == "Right: 5 stands in row 1, column 3."
    assert (playing.grid[cell], playing.moves, playing.tried) == (5, 1, [])
    assert playing.progress == pytest.approx(1 / 45)


def test_a_wrong_digit_is_not_written_but_counts() -> None:
    playing = game()
    cell = cell_at(1, 3)
    for _ in range(3):
        outcome = playing.play(cell, 2)
        assert not outcome.correct
        assert outcome.message == "Wrong: 2 cannot stand in row 1, column 3; row 1 has it already."
    assert (playing.grid[cell], playing.moves, playing.progress) == (0, 3, 0.0)
    assert playing.tried == [(cell, 2)] * 3


def test_a_wrong_digit_that_breaks_no_rule_is_told_apart() -> None:
    playing = game()
    cell, digit = next(
        (cell, digit)
        for cell in CELLS
        if playing.grid[cell] == 0
        for digit in digits(candidates(playing.grid, cell))
        if digit != playing.puzzle.solution[cell]
    )
    outcome = playing.play(cell, digit)
    assert not outcome.correct
    assert "breaks no rule yet, but leads to no solution" in outcome.message


def test_it_ends_when_it_is_solved_or_the_moves_are_used_up() -> None:
    solved, used_up = game(45), game(2)
    for cell in [cell for cell in CELLS if solved.grid[cell] == 0]:
        assert not solved.over
        solved.play(cell, solved.puzzle.solution[cell])
    assert (solved.solved, solved.over, solved.progress) == (True, True, 1.0)
    used_up.play(cell_at(1, 3), 2)
    used_up.play(cell_at(1, 3), 2)
    assert (used_up.solved, used_up.over) == (False, True)


def test_hints_are_the_tightest_cells_without_what_was_tried() -> None:
    playing = game()
    everywhere = playing.hints(81)
    assert len(everywhere) == 45
    counts = [len(numbers) for _, numbers in everywhere]
    assert counts == sorted(counts)
    assert all(playing.puzzle.solution[cell] in numbers for cell, numbers in everywhere)
    assert playing.hints(0) == []
    assert playing.hints(4) == everywhere[:4]
    cell, numbers = everywhere[-1]
    wrong = next(number for number in numbers if number != playing.puzzle.solution[cell])
    playing.play(cell, wrong)
    assert wrong not in dict(playing.hints(81))[cell]


def test_cells_are_counted_from_the_top_left() -> None:
    assert [cell_at(1, 1), cell_at(1, 9), cell_at(2, 1), cell_at(9, 9)] == [0, 8, 9, 80]
    assert all(cell_at(*place_of(cell)) == cell for cell in CELLS)


def test_a_board_is_read_back() -> None:
    playing = game()
    assert grid_of(playing.board) == playing.grid


@pytest.mark.parametrize("board", [[], ["........."] * 8, ["........"] * 9, ["........0"] * 9, ["........x"] * 9])
def test_what_is_no_board_is_refused(board: list[str]) -> None:
    with pytest.raises(ValueError, match="Expected nine rows of nine characters"):
        grid_of(board)
