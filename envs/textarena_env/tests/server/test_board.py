import re

import pytest

from textarena_env.models import TextArenaAction
from textarena_env.server.board import as_html
from textarena_env.server.settings import Settings
from textarena_env.server.textarena_environment import TextArenaEnvironment


@pytest.mark.parametrize(
    ("env_id", "move", "cells"),
    [
        ("TicTacToe-v0", "[4]", 9),
        ("ConnectFour-v0", "[col 3]", 42),
        ("FrozenLake-v0", "[right]", 16),
        ("LightsOut-v0", "[0 1]", 25),
    ],
)
def test_a_game_with_a_board_of_squares_shows_it(env_id: str, move: str, cells: int) -> None:
    environment = TextArenaEnvironment(Settings())
    environment.reset(seed=3, env_id=env_id)
    observation = environment.step(TextArenaAction(message=move)).model_dump(mode="json")
    html = environment.render_web(observation)
    assert html is not None
    boards = html.split("<table ")[1:]
    assert {len(re.findall("<td", board)) - ("<th" in board and "row" in board) for board in boards} == {cells}


def test_guesses_in_wordle_have_their_colours_and_the_rest_is_text() -> None:
    said = "[GAME] You submitted [crane].\nFeedback:\nC R A N E\nX G Y X Y\nYou have 5 guesses left. <b>"
    html = as_html({"text": said})
    assert html is not None
    kinds = ["absent", "in-place", "elsewhere", "absent", "elsewhere"]
    assert re.findall(r'class="([\w-]+)"[^>]*>(\w)<', html) == list(zip(kinds, "CRANE", strict=True))
    assert 'aria-label="R, in its place"' in html
    assert html.endswith("You have 5 guesses left. &lt;b&gt;</p>")


def test_a_game_without_a_board_is_left_to_its_text() -> None:
    assert as_html({"text": "[GAME] Hand 1/5\nYour hand: J♦, 8♥ (Score: 18)"}) is None
