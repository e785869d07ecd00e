import subprocess
import sys
from statistics import mean
from typing import get_args

import pytest

from sudoku_env.grid import EMPTY
from sudoku_env.puzzles import CLUES, Difficulty, make_puzzle, solved_by_looking
from sudoku_env.solver import solutions

DIFFICULTIES: tuple[Difficulty, ...] = get_args(Difficulty)


@pytest.mark.level("files")
@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_every_puzzle_has_its_clues_and_one_solution(difficulty: Difficulty) -> None:
    for seed in range(40):
        puzzle = make_puzzle(seed, difficulty)
        assert sum(digit > 0 for digit in puzzle.clues) == CLUES[difficulty]
        assert solutions(puzzle.clues, limit=2) == [puzzle.solution]


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_more_clues_fill_cells_of_the_same_puzzle(difficulty: Difficulty) -> None:
    for seed in range(10):
        puzzle, easier = make_puzzle(seed, difficulty), make_puzzle(seed, difficulty, 79)
        assert easier.solution == puzzle.solution
        assert easier.clues.count(0) == 2
        assert all(puzzle.clues[cell] == 0 for cell, digit in enumerate(easier.clues) if digit == 0)


@pytest.mark.parametrize("difficulty", ["very-easy", "easy", "medium"])
def test_up_to_medium_no_digit_has_to_be_tried(difficulty: Difficulty) -> None:
    assert all(solved_by_looking(make_puzzle(seed, difficulty).clues) for seed in range(40))


@pytest.mark.level("socket")
def test_of_the_hard_ones_about_a_quarter_cannot_be_solved_by_looking() -> None:
    share = mean(not solved_by_looking(make_puzzle(seed, "hard").clues) for seed in range(100))
    assert 0.15 < share < 0.4


def test_an_empty_grid_is_not_solved_by_looking() -> None:
    assert not solved_by_looking(EMPTY)


def test_seeds_and_difficulties_give_different_puzzles() -> None:
    puzzles = {make_puzzle(seed, difficulty) for seed in range(50) for difficulty in DIFFICULTIES}
    assert len(puzzles) == len({puzzle.solution for puzzle in puzzles}) == 200


def test_without_a_seed_any_is_drawn() -> None:
    assert len({make_puzzle(None, "easy") for _ in range(5)}) == 5


def test_a_seed_means_the_same_in_every_process() -> None:
    program = "from sudoku_env.puzzles import make_puzzle; print(make_puzzle(7, 'hard'))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, timeout=60, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert printed == {f"{make_puzzle(7, 'hard')}\n".encode()}
    assert make_puzzle(7, "hard").clues[:9] == (0, 0, 7, 3, 0, 6, 1, 0, 5)
