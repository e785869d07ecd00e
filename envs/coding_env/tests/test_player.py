import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from statistics import mean

import pytest

from coding_env import CodeAction, CodeObservation
from coding_env.player import make_player
from coding_env.server.python_codeact_env import PythonCodeActEnv

pytestmark = pytest.mark.needs("sandbox")

STEPS = 5
# Of the README's 200: each needs a sandbox, and they differ only where random characters happen to compile.
EPISODES = 10

Player = Callable[[CodeObservation], CodeAction]


def score(make: Callable[[int], Player]) -> float:
    return mean(sum(rewards(seed, make(seed))) for seed in range(EPISODES))


def rewards(seed: int, player: Player) -> Iterator[float]:
    environment = PythonCodeActEnv()
    observation = environment.reset(seed=seed, max_steps=STEPS)
    while not observation.done:
        observation = environment.step(player(observation))
        yield float(observation.reward or 0.0)
    environment.close()


def make_random_player(seed: int) -> Player:
    random = Random(f"{seed}/random")
    return lambda observation: CodeAction(
        code="".join(chr(random.randint(32, 126)) for _ in range(random.randint(1, 80)))
    )


def test_the_player_scores_what_the_readme_says_and_random_characters_do_not() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    stated = re.search(r"mean reward is ([\d.]+); random characters have (-\d\.\d+)", readme)
    assert stated is not None
    assert f"{score(make_player):.2f}" == stated[1]
    assert abs(score(make_random_player) - float(stated[2])) < 0.1


def test_a_seed_writes_the_same_code_and_another_writes_other() -> None:
    written = {seed: make_player(seed)(CodeObservation()).code for seed in range(10)}
    assert written == {seed: make_player(seed)(CodeObservation()).code for seed in range(10)}
    assert len(set(written.values())) > 5
