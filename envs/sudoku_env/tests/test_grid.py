import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudoku_env.grid import (
    ALL_DIGITS,
    BOXES,
    CELLS,
    COLUMNS,
    DIGITS,
    EMPTY,
    ROWS,
    UNITS,
    all_candidates,
    candidates,
    conflict,
    digits,
    is_single,
)
from sudoku_env.puzzles import make_puzzle

PUZZLE = make_puzzle(7, "medium")


def test_each_cell_is_in_three_units_of_nine() -> None:
    for cell in CELLS:
        assert [len(set(unit)) for unit in UNITS[cell]] == [9, 9, 9]
        assert all(cell in unit for unit in UNITS[cell])
        assert len({other for unit in UNITS[cell] for other in unit}) == 21
    assert sorted(zip(ROWS, COLUMNS, strict=True)) == [(row, column) for row in range(9) for column in range(9)]
    assert [BOXES[cell] for cell in (0, 8, 30, 40, 72, 80)] == [0, 2, 4, 4, 6, 8]


def test_in_an_empty_grid_everything_may_stand_everywhere() -> None:
    assert {candidates(EMPTY, cell) for cell in CELLS} == {ALL_DIGITS}
    assert digits(ALL_DIGITS) == list(DIGITS)
    assert digits(0) == []


@given(st.sampled_from([cell for cell in CELLS if PUZZLE.clues[cell] == 0]), st.sampled_from(DIGITS))
def test_a_digit_is_a_candidate_where_it_conflicts_with_nothing(cell: int, digit: int) -> None:
    free = conflict(PUZZLE.clues, cell, digit) is None
    assert free == (digit in digits(candidates(PUZZLE.clues, cell)))
    assert all_candidates(PUZZLE.clues)[cell] == candidates(PUZZLE.clues, cell)


def test_only_empty_cells_have_candidates() -> None:
    assert [cell for cell in CELLS if PUZZLE.clues[cell] == 0] == list(all_candidates(PUZZLE.clues))
    assert all_candidates(PUZZLE.solution) == {}


@pytest.mark.parametrize(("other", "says"), [(8, "row 1"), (72, "column 1"), (10, "its box"), (40, None)])
def test_a_conflict_is_named(other: int, says: str | None) -> None:
    grid = list(EMPTY)
    grid[other] = 5
    assert conflict(grid, 0, 5) == says
    assert conflict(grid, 0, 6) is None


def test_the_last_candidate_of_a_cell_is_a_single() -> None:
    grid = [1, 2, 3, 4, 5, 6, 7, 8, *EMPTY[8:]]
    assert is_single(grid, 8, 9)


def test_the_last_place_of_a_digit_is_a_single_though_the_cell_could_hold_others() -> None:
    grid = list(EMPTY)
    grid[12] = grid[24] = grid[55] = grid[65] = 7  # bars row 2, row 3, and columns 2 and 3
    assert candidates(grid, 0) == ALL_DIGITS & ~0
    assert is_single(grid, 0, 7)
    assert not is_single(grid, 0, 6)
    grid[65] = 0
    assert not is_single(grid, 0, 7)
