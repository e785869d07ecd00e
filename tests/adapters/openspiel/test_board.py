"""OpenSpiel's games as boards: which have one on the page, at every position of an episode."""

import re

import pytest

from openenv.adapters.openspiel import OpenSpielAction, OpenSpielEnvironment

SQUARES = {
    "amazons": 100,
    "breakthrough": 64,
    "catch": 50,
    "checkers": 64,
    "chess": 64,
    "cliff_walking": 32,
    "connect_four": 42,
    "markov_soccer": 20,
    "othello": 64,
    "phantom_go": 81,
    "snake": 100,
    "stones_and_gems": 240,
    "tic_tac_toe": 9,
    "xiangqi": 90,
}
WITHOUT = ["backgammon", "gin_rummy", "hex", "kuhn_poker", "matrix_pd", "quoridor", "spades"]


def views(game: str) -> list[str | None]:
    """Return what the page shows of the first positions of a game."""
    environment = OpenSpielEnvironment(game)
    observation = environment.reset(seed=2)
    shown = [environment.render_web(observation.model_dump(mode="json"))]
    while not observation.done and len(shown) < 8:
        observation = environment.step(OpenSpielAction(action_id=observation.legal_actions[len(shown) % 2]))
        shown.append(environment.render_web(observation.model_dump(mode="json")))
    return shown


@pytest.mark.parametrize(("game", "squares"), SQUARES.items())
def test_a_game_of_squares_shows_its_board_and_the_moves(game: str, squares: int) -> None:
    for html in views(game):
        assert html is not None
        corner = '<td></td><th scope="col">' in html
        assert len(re.findall("<td", html)) - corner - html.count('class="gap"') == squares
        assert "Legal actions: " in html or "The game is over." in html


@pytest.mark.parametrize("game", WITHOUT)
def test_a_game_of_another_kind_is_left_to_its_text(game: str) -> None:
    assert set(views(game)) == {None}
