import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import mean

import pytest

from wordle_env import WordleAction, WordleObservation
from wordle_env.player import make_player, possible_secrets
from wordle_env.server.wordle_environment import WordleEnvironment
from wordle_env.words import WordList, word_list

Player = Callable[[WordleObservation], WordleAction]


def final_observation(seed: int, player: Player) -> WordleObservation:
    environment = WordleEnvironment()
    observation = environment.reset(seed=seed)
    while not observation.done:
        observation = environment.step(player(observation))
    return observation


def make_random_player(seed: int) -> Player:
    words = Random(f"{seed}/random").sample(word_list(5).secrets, 6)
    return lambda observation: WordleAction(word=words[len(observation.guesses)])


@pytest.mark.level("command")
def test_the_player_scores_what_the_readme_says_and_a_random_one_next_to_nothing() -> None:
    endings = [final_observation(seed, make_player(seed)) for seed in range(200)]
    score, guesses = mean(float(end.reward or 0) for end in endings), mean(len(end.guesses) for end in endings)
    assert score >= 0.97
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    stated = re.search(r"mean reward ([\d.]+) .*?([\d.]+) guesses", readme)
    assert stated is not None
    assert (f"{score:.2f}", f"{guesses:.1f}") == stated.groups()
    assert mean(float(final_observation(seed, make_random_player(seed)).reward or 0) for seed in range(200)) < 0.05


def test_a_seed_makes_the_same_guesses_and_another_makes_others() -> None:
    assert final_observation(3, make_player(1)).guesses == final_observation(3, make_player(1)).guesses
    first = {make_player(seed)(WordleEnvironment().reset(seed=3)).word for seed in range(10)}
    assert len(first) > 5


@pytest.mark.level("socket")
def test_a_player_with_the_seed_of_the_episode_does_not_know_the_secret() -> None:
    first_guess_right = sum(len(final_observation(seed, make_player(seed)).guesses) == 1 for seed in range(100))
    assert first_guess_right <= 2


def test_words_that_the_common_list_lacks_are_found_in_the_long_one() -> None:
    board = WordleObservation(word_length=5, guesses_left=5, guesses=["SOARS"], feedbacks=["🟩🟩🟩🟩🟩"])
    words = WordList(secrets=("mouse",), guesses=frozenset({"mouse", "soars", "boars"}))
    assert possible_secrets(board, words) == ["soars"]
