from collections.abc import Iterator
from statistics import mean
from typing import Any

import pyspiel
import pytest

from catch_env.models import CatchObservation
from catch_env.player import best_action as best_catch
from openspiel_env import OpenSpielObservation
from openspiel_env.server.openspiel_environment import OpenSpielEnvironment
from openspiel_env.strategies import STRATEGIES, Strategy, kuhn_poker, tic_tac_toe


def seen(position: Any, player: int) -> OpenSpielObservation:
    """What the player of a two-player game sees of a position."""
    of_information = position.get_game().get_type().provides_information_state_tensor
    tensor = position.information_state_tensor if of_information else position.observation_tensor
    return OpenSpielObservation(
        info_state=tensor(player),
        legal_actions=position.legal_actions(player),
        current_player_id=player,
    )


def expected_return(position: Any, player: int, strategy: Strategy) -> float:
    """What a strategy gains on average when chance and the other player move at random, found by trying everything."""
    if position.is_terminal():
        returns: list[float] = position.returns()
        return returns[player]
    if position.current_player() == player:
        return expected_return(position.child(strategy(seen(position, player))), player, strategy)
    return mean(expected_return(position.child(action), player, strategy) for action in position.legal_actions())


@pytest.mark.parametrize("player", [0, 1])
def test_kuhn_poker_is_the_best_response_to_a_random_opponent(player: int) -> None:
    game = pyspiel.load_game("kuhn_poker")
    opponent = pyspiel.UniformRandomPolicy(game)  # which the next object keeps no hold of
    best = pyspiel.TabularBestResponse(game, player, opponent)
    known = best.value_from_state(game.new_initial_state())
    assert expected_return(game.new_initial_state(), player, kuhn_poker) == pytest.approx(known)


# These two were computed by the same TabularBestResponse of OpenSpiel, which takes half a minute for this game.
@pytest.mark.parametrize(("player", "known"), [(0, 0.9947916666666666), (1, 0.9248677248677248)])
def test_tic_tac_toe_is_the_best_response_to_a_random_opponent(player: int, known: float) -> None:
    start = pyspiel.load_game("tic_tac_toe").new_initial_state()
    assert expected_return(start, player, tic_tac_toe) == pytest.approx(known)


def boards() -> Iterator[tuple[list[float], CatchObservation]]:
    for row in range(9):
        for ball in range(5):
            for paddle in range(5):
                numbers = [0.0] * 50
                numbers[5 * row + ball] = numbers[45 + paddle] = 1.0
                yield numbers, CatchObservation(ball=ball, paddle=paddle, row=row)


def test_catch_moves_as_the_player_in_words_does() -> None:
    for numbers, observation in boards():
        chosen = STRATEGIES["catch", 50](OpenSpielObservation(info_state=numbers, legal_actions=[0, 1, 2]))
        assert ["left", "stay", "right"][chosen] == best_catch(observation).move


def test_the_sizes_are_those_of_the_games() -> None:
    environment = OpenSpielEnvironment()
    for name, size in STRATEGIES:
        assert len(environment.reset(seed=1, game_name=name).info_state) == size
