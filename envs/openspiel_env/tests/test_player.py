import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import mean

import pytest

from openspiel_env import OpenSpielAction, OpenSpielObservation
from openspiel_env.player import make_player
from openspiel_env.server.openspiel_environment import OpenSpielEnvironment

Player = Callable[[OpenSpielObservation], OpenSpielAction]
FAST = ["catch", "cliff_walking", "kuhn_poker", "tic_tac_toe"]


def score(game: str, make: Callable[[int], Player]) -> float:
    environment, totals = OpenSpielEnvironment(), []
    for seed in range(200):
        observation, player = environment.reset(seed=seed, game_name=game), make(seed)
        rewards = []
        while not observation.done:
            observation = environment.step(player(observation))
            rewards.append(float(observation.reward or 0))
        totals.append(sum(rewards))
    return mean(totals)


def make_random_player(seed: int) -> Player:
    random = Random(f"{seed}/player")
    return lambda observation: OpenSpielAction(action_id=random.choice(observation.legal_actions))


@pytest.mark.parametrize("game", FAST)
def test_the_player_and_a_random_one_score_what_the_readme_says(game: str) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| {game} \| (\S+) \| (\S+) \| (\S+) ", readme, re.MULTILINE)
    assert row is not None
    played, randomly = score(game, make_player), score(game, make_random_player)
    assert (f"{played:.2f}", f"{randomly:.2f}") == (row[1], row[2])
    # No reward of these games is more than 2 from the mean, so that this is five standard errors.
    assert played == pytest.approx(float(row[3]), abs=5 * 2 / 200**0.5)


@pytest.mark.parametrize(
    ("game", "params"),
    [
        ("connect_four", {}),
        ("backgammon", {}),
        ("goofspiel", {}),
        ("catch", {"columns": 10, "rows": 5}),
        ("catch", {"columns": 3, "rows": 4}),
        ("cliff_walking", {"width": 4, "height": 2}),
        ("kuhn_poker", {"players": 3}),
    ],
)
def test_other_games_and_sizes_are_played_legally_to_the_end(game: str, params: dict[str, int]) -> None:
    environment = OpenSpielEnvironment()
    observation, player = environment.reset(seed=1, game_name=game, game_params=params), make_player(1)
    while not observation.done:
        observation = environment.step(player(observation))
    assert observation.game_phase == "terminal"


def test_a_public_server_shows_no_text_and_any_legal_action_will_do() -> None:
    observation = OpenSpielObservation(info_state=[0.0] * 50, legal_actions=[1, 2])
    chosen = {make_player(seed)(observation).action_id for seed in range(50)}
    assert chosen == {1, 2}
    assert make_player(3)(observation) == make_player(3)(observation)
