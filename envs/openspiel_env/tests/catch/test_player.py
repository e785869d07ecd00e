from collections.abc import Callable
from random import Random
from statistics import mean

from openspiel_env.catch import CatchAction, CatchObservation
from openspiel_env.catch.player import make_player
from openspiel_env.catch.server.catch_environment import CatchEnvironment


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
    random = Random(seed)
    return lambda _: CatchAction(move=random.choice(["left", "stay", "right"]))


def test_the_player_catches_every_ball() -> None:
    assert score(make_player) == 1.0


def test_a_random_player_misses_most() -> None:
    assert -0.75 < score(make_random_player) < -0.45
