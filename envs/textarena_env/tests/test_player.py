import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import mean

import pytest

from textarena_env import TextArenaAction, TextArenaMessage, TextArenaObservation
from textarena_env.player import make_player, marked
from textarena_env.server.textarena_environment import TextArenaEnvironment
from textarena_env.words import common_words, nouns

Player = Callable[[TextArenaObservation], TextArenaAction]
README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def final_observation(seed: int, player: Player, **task: object) -> TextArenaObservation:
    environment = TextArenaEnvironment()
    observation = environment.reset(seed=seed, **task)  # type: ignore[arg-type]  # as over the wire
    while not observation.done:
        observation = environment.step(player(observation))
    return observation


def score(make: Callable[[int], Player], seeds: range, **task: object) -> float:
    return mean(float(final_observation(seed, make(seed), **task).reward or 0.0) for seed in seeds)


def make_wordle_guesser(seed: int) -> Player:
    """Guesses what may be the secret, and takes no notice of the feedback."""
    secrets = [word for word in common_words() if word in nouns() and len(word) == 5]
    guesses = iter(Random(f"{seed}/random").sample(secrets, 6))
    return lambda observation: TextArenaAction(message=next(guesses))


def make_random_mover(seed: int) -> Player:
    chance = Random(f"{seed}/random")

    def move(observation: TextArenaObservation) -> TextArenaAction:
        cells = re.findall(r"'(\[\d\])'", observation.messages[-1].content)
        return TextArenaAction(message=chance.choice(cells))

    return move


@pytest.mark.level("process")
def test_the_player_scores_at_wordle_what_the_readme_says() -> None:
    stated = re.search(r"mean reward ([\d.]+), where guessing such nouns at random has (\d\.\d+)", README)
    assert stated is not None
    scores = score(make_player, range(200)), score(make_wordle_guesser, range(200))
    assert tuple(f"{value:.2f}" for value in scores) == stated.groups()
    assert scores[0] > 0.9 > 0.1 > scores[1]


@pytest.mark.level("command")
def test_the_player_scores_at_tic_tac_toe_what_the_readme_says() -> None:
    stated = re.search(r"mean reward ([\d.]+), where random moves have\s+(\d\.\d+)", README)
    assert stated is not None
    task = {"env_id": "TicTacToe-v0", "opponents": "random"}
    scores = score(make_player, range(200), **task), score(make_random_mover, range(200), **task)
    assert tuple(f"{value:.2f}" for value in scores) == stated.groups()


@pytest.mark.level("files")
@pytest.mark.parametrize("player_id", [0, 1])
def test_the_player_never_loses_at_tic_tac_toe_and_draws_with_itself(player_id: int) -> None:
    task = {"env_id": "TicTacToe-v0", "player_id": player_id}
    assert score(make_player, range(20), opponents="scripted", **task) == 0.0
    ends = [final_observation(seed, make_player(seed), opponents="random", **task) for seed in range(30)]
    assert min(float(end.reward or 0.0) for end in ends) == 0.0


@pytest.mark.level("socket")
def test_it_plays_the_long_and_the_hardcore_wordle_too() -> None:
    for env_id in ("Wordle-v0-long", "Wordle-v0-long-hardcore", "Wordle-v0-hardcore"):
        assert score(make_player, range(10), env_id=env_id) > 0.5, env_id


def test_it_reads_a_cumulative_transcript_as_well() -> None:
    ends = [final_observation(7, make_player(1), history=history) for history in ("new", "cumulative")]
    assert ends[0].info == ends[1].info


@pytest.mark.parametrize("env_id", ["Minesweeper-v0", "2048-v0", "PigDice-v0", "KuhnPoker-v0", "FrozenLake-v0"])
def test_in_other_games_it_repeats_what_is_in_brackets(env_id: str) -> None:
    environment, player = TextArenaEnvironment(), make_player(1)
    observation = environment.reset(seed=1, env_id=env_id)
    for _ in range(10):
        if observation.done:
            break
        action = player(observation)
        assert re.fullmatch(r"\[.+\]", action.message)
        observation = environment.step(action)


def test_where_nothing_is_in_brackets_it_still_answers() -> None:
    said = TextArenaMessage(sender_id=-1, content="Say something.", category="PROMPT")
    assert make_player(1)(TextArenaObservation(prompt="", messages=[said])).message


def test_a_seed_makes_the_same_guesses_and_another_makes_others() -> None:
    observation = TextArenaEnvironment().reset(seed=3)
    assert make_player(1)(observation) == make_player(1)(observation)
    assert len({make_player(seed)(observation).message for seed in range(10)}) > 5


def test_marks_are_those_of_the_game() -> None:
    assert marked("abbey", "babes") == "YYGGX"
    assert marked("mouse", "house") == "XGGGG"
    assert marked("mouse", "mo") == ""
