import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import mean
from typing import get_args

import pytest

from sudoku_env import SudokuAction, SudokuObservation
from sudoku_env.player import make_player
from sudoku_env.puzzles import CLUES, Difficulty
from sudoku_env.server.sudoku_environment import SudokuEnvironment

Player = Callable[[SudokuObservation], SudokuAction]


def final_observation(seed: int, player: Player, difficulty: Difficulty = "easy") -> SudokuObservation:
    environment = SudokuEnvironment()
    observation = environment.reset(seed=seed, difficulty=difficulty)
    while not observation.done:
        observation = environment.step(player(observation))
    return observation


def make_random_player(seed: int) -> Player:
    chance = Random(f"{seed}/random")

    def move(observation: SudokuObservation) -> SudokuAction:
        cells = [(row, col) for row in range(9) for col in range(9) if observation.board[row][col] == "."]
        row, col = chance.choice(cells)
        return SudokuAction(row=row + 1, col=col + 1, number=chance.randint(1, 9))

    return move


@pytest.mark.level("command")
def test_the_player_scores_what_the_readme_says_and_a_random_one_nothing() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    stated = re.search(r"mean reward\s+(\d\.\d+) at .*?has (\d\.\d+), and comes to (\d\.\d+) of", readme, re.DOTALL)
    assert stated is not None
    ends = [final_observation(seed, make_player(seed)) for seed in range(200)]
    assert mean(float(end.reward or 0) for end in ends) == float(stated[1])
    random_ends = [final_observation(seed, make_random_player(seed)) for seed in range(50)]  # of 70 moves each
    assert mean(float(end.reward or 0) for end in random_ends) == float(stated[2])
    assert mean(end.progress for end in random_ends) == pytest.approx(float(stated[3]), abs=0.03)


@pytest.mark.level("files")
@pytest.mark.parametrize("difficulty", get_args(Difficulty))
def test_it_solves_every_difficulty_without_a_wrong_move(difficulty: Difficulty) -> None:
    for seed in range(20):
        end = final_observation(seed, make_player(seed), difficulty)
        assert (end.reward, end.tried) == (1.0, [])
        assert end.moves_left == 81 - CLUES[difficulty]


def test_a_seed_makes_the_same_moves_and_another_makes_others() -> None:
    observation = SudokuEnvironment().reset(seed=1)
    assert make_player(1)(observation) == make_player(1)(observation)
    assert len({str(make_player(seed)(observation)) for seed in range(10)}) > 3
