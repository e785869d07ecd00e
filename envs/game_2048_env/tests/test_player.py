import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import mean

from game_2048_env import Game2048Action, Game2048Observation
from game_2048_env.player import best_move, make_player
from game_2048_env.server.game_2048_environment import Game2048Environment

Player = Callable[[Game2048Observation], Game2048Action]
README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def scores(make: Callable[[int], Player], seeds: int) -> list[int]:
    environment, found = Game2048Environment(), []
    for seed in range(seeds):
        observation, player = environment.reset(seed=seed), make(seed)
        while not observation.done:
            observation = environment.step(player(observation))
        found.append(observation.score)
    return found


def make_random_player(seed: int) -> Player:
    random = Random(f"{seed}/player")
    return lambda observation: Game2048Action(move=random.choice(observation.legal_moves))


def test_the_player_scores_what_the_readme_says() -> None:
    """Of the README's 200 games, which take more than a minute, the first ten, whose mean it states too."""
    stated = re.search(r"on the first ten of them it has (\d+\.\d+)", README)
    assert stated is not None
    assert f"{mean(scores(make_player, 10)):.2f}" == stated[1]


def test_random_moves_score_what_the_readme_says() -> None:
    stated = re.search(r"Moves at random have\s+(\d+\.\d+)", README)
    assert stated is not None
    assert f"{mean(scores(make_random_player, 200)):.2f}" == stated[1]


def test_a_board_with_one_move_left_is_played() -> None:
    only_left = ((0, 2, 4, 8), (2, 4, 8, 16), (4, 8, 16, 32), (8, 16, 32, 64))
    assert best_move(only_left) in ("left", "up")
    full = ((2, 2, 4, 8), (4, 8, 16, 32), (8, 16, 32, 64), (16, 32, 64, 128))
    assert best_move(full) in ("left", "right")
