"""What the environments of one game, in words, have in common."""

import copy
from random import Random
from typing import Any

import pytest

from blackjack_env import BlackjackAction
from blackjack_env.server.blackjack_environment import BlackjackEnvironment
from game_2048_env import Game2048Action
from game_2048_env.server.game_2048_environment import Game2048Environment
from openenv.adapters.openspiel import OpenSpielAction, OpenSpielObservation
from openenv.core.exceptions import ResetNeededError
from openspiel_env.server.openspiel_environment import OpenSpielEnvironment

ACTIONS: dict[Any, Any] = {BlackjackEnvironment: BlackjackAction, Game2048Environment: Game2048Action}
GAMES = list(ACTIONS)
NUMBERS = [name for name in OpenSpielObservation.model_fields if name != "text"]


def moved(environment: Any, number: int) -> Any:
    """Step with OpenSpiel's number of a move."""
    return environment.step(ACTIONS[type(environment)].model_validate({"action_id": number}))


def play_out(environment: Any, observation: Any, seed: int = 7) -> list[Any]:
    random, seen = Random(seed), [observation]
    while not seen[-1].done:
        seen.append(moved(environment, random.choice(seen[-1].legal_actions)))
    return seen


@pytest.mark.parametrize("made", GAMES)
def test_the_numbers_are_those_of_the_openspiel_environment(made: Any) -> None:
    environment, numbered, random = made(), OpenSpielEnvironment(), Random(1)
    for seed in range(10):
        observation: Any = environment.reset(seed=seed)
        expected = numbered.reset(seed=seed, game_name=made.GAME)
        while not expected.done:
            assert [getattr(observation, name) for name in NUMBERS] == [getattr(expected, name) for name in NUMBERS]
            number = random.choice(expected.legal_actions)
            observation, expected = moved(environment, number), numbered.step(OpenSpielAction(action_id=number))
        assert [getattr(observation, name) for name in NUMBERS] == [getattr(expected, name) for name in NUMBERS]
        assert environment.state.step_count == numbered.state.step_count


@pytest.mark.parametrize("made", GAMES)
def test_a_seed_makes_the_same_episode_and_others_make_others(made: Any) -> None:
    environment = made()
    episodes = [play_out(environment, environment.reset(seed=seed)) for seed in (1, 2, 3, 1)]
    assert episodes[0] == episodes[3]
    assert episodes[0] != episodes[1] != episodes[2]
    assert len({str(environment.reset().info_state) for _ in range(10)}) > 1


@pytest.mark.parametrize("made", GAMES)
def test_a_copy_goes_on_by_itself_and_alike(made: Any) -> None:
    original = made()
    start = original.reset(seed=3)
    copies = [copy.deepcopy(original) for _ in range(2)]
    played = play_out(original, start)
    assert [play_out(each, start) for each in copies] == [played, played]
    assert original.state.step_count == len(played) - 1


@pytest.mark.parametrize("made", GAMES)
def test_there_is_nothing_to_play_before_a_reset_or_after_the_end(made: Any) -> None:
    environment = made()
    assert environment.render() == ""
    with pytest.raises(ResetNeededError):
        moved(environment, 0)
    play_out(environment, environment.reset(seed=1))
    with pytest.raises(ResetNeededError):
        moved(environment, 0)


@pytest.mark.parametrize("made", GAMES)
def test_the_state_names_the_game_and_the_episode_and_counts_its_steps(made: Any) -> None:
    environment = made()
    assert (environment.state.game_name, environment.state.episode_id) == (made.GAME, None)
    observation = environment.reset(seed=1, episode_id="mine")
    moved(environment, observation.legal_actions[0])
    assert (environment.state.episode_id, environment.state.step_count) == ("mine", 1)
    environment.reset(seed=1)
    assert environment.state.step_count == 0
    assert environment.state.episode_id not in (None, "mine")


@pytest.mark.parametrize("made", GAMES)
def test_the_rules_are_told_at_the_reset_alone(made: Any) -> None:
    environment = made()
    first, *later = play_out(environment, environment.reset(seed=1))
    rules = first.text.splitlines()[0]
    assert rules.lower().startswith(made.GAME)
    assert all(rules not in observation.text for observation in later)
