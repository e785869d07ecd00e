import re
from pathlib import Path
from random import Random
from statistics import mean

from echo_env import EchoAction
from echo_env.models import EchoObservation
from echo_env.player import make_player
from echo_env.server.echo_environment import EchoEnvironment
from openenv.adapters.text import ActionText
from openenv.train.agents.players import RandomPlayer


def reward_of(action: EchoAction) -> float:
    environment = EchoEnvironment()
    environment.reset()
    return float(environment.step(action).reward or 0)


def test_the_player_and_a_random_one_gain_what_the_readme_says() -> None:
    greeting = EchoEnvironment().reset(seed=0)
    gained = mean(reward_of(make_player(seed)(greeting)) for seed in range(200))
    randomly = mean(reward_of(random_action(seed, greeting)) for seed in range(200))
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    stated = re.search(r"gains ([\d.]+) by a message; one that says .* at\s+random gains (\d\.\d+)", readme, re.DOTALL)
    assert stated is not None
    assert (f"{gained:.2f}", f"{randomly:.2f}") == stated.groups()


def random_action(seed: int, observation: EchoObservation) -> EchoAction:
    action = RandomPlayer(ActionText(EchoAction), seed)(observation)
    assert isinstance(action, EchoAction)
    return action


def test_a_player_says_the_same_again_with_its_seed_and_not_always_the_same() -> None:
    greeting = EchoEnvironment().reset()
    one, again = make_player(1), make_player(1)
    said = [one(greeting).message for _ in range(20)]
    assert said == [again(greeting).message for _ in range(20)]
    assert len(set(said)) == 3
    assert len({Random(f"{seed}/player").random() for seed in range(20)}) == 20
