"""The player, and one that knows nothing."""

import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import mean

from sql_env import QueryAction, SqlAction, SqlObservation, SubmitAction
from sql_env.player import make_player
from sql_env.server.sql_environment import SqlEnvironment

Player = Callable[[SqlObservation], SqlAction]


def reward_of(environment: SqlEnvironment, seed: int, player: Player) -> float:
    observation = environment.reset(seed=seed)
    while not observation.done:
        observation = environment.step(player(observation))
    return float(observation.reward or 0.0)


def make_random_player(seed: int) -> Player:
    """Looks at a table by chance, and answers with a value by chance that it has seen there."""
    chance = Random(f"{seed}/random")

    def play(observation: SqlObservation) -> SqlAction:
        if not observation.columns:
            return QueryAction(sql=f"SELECT * FROM {chance.choice(sorted(observation.tables))}")
        return SubmitAction(answer=chance.choice([value for row in observation.rows for value in row]) or 0)

    return play


def test_the_player_scores_what_the_readme_says_and_a_random_one_next_to_nothing() -> None:
    environment = SqlEnvironment()
    scores = mean(reward_of(environment, seed, make_player(seed)) for seed in range(200))
    by_chance = mean(reward_of(environment, seed, make_random_player(seed)) for seed in range(200))
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    stated = re.search(r"mean reward (\d\.\d+).*?has (\d\.\d+)", readme, re.DOTALL)
    assert stated is not None
    assert (f"{scores:.2f}", f"{by_chance:.2f}") == stated.groups()
    assert scores == 1.0
    assert by_chance < 0.1


def test_a_question_that_is_not_known_is_given_up() -> None:
    asked = SqlObservation(question="What is the meaning of life?", queries_left=10)
    assert make_player(1)(asked) == SubmitAction(answer=[])
