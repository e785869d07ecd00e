import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import mean

from catch_env import CatchAction, CatchObservation
from catch_env.player import make_player
from catch_env.server.catch_environment import CatchEnvironment


def score(make: Callable[[int], Callable[[CatchObservation], CatchAction]]) -> float:
    """The mean reward over 200 seeds."""
    environment, rewards = CatchEnvironment(), []
    for seed in range(200):
        observation, player = environment.reset(seed=seed), make(seed)
        while not observation.done:
            observation = environment.step(player(observation))
        rewards.append(float(observation.reward or 0))
    return mean(rewards)


def make_random_player(seed: int) -> Callable[[CatchObservation], CatchAction]:
    random = Random(f"{seed}/player")
    return lambda _: CatchAction(move=random.choice(["left", "stay", "right"]))


def test_the_player_and_a_random_one_score_what_the_readme_says() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    stated = re.search(r"mean reward ([\d.]+), and random moves\s+have (-\d\.\d+)", readme)
    assert stated is not None
    assert (f"{score(make_player):.2f}", f"{score(make_random_player):.2f}") == stated.groups()


def test_every_ball_can_be_caught_and_is() -> None:
    """OpenSpiel's own value of the game is 1."""
    assert score(make_player) == 1.0
