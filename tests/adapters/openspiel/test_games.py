import subprocess
import sys

import pyspiel
import pytest

from openenv.adapters.openspiel.games import game_type, load_game, moves_are_public, unknown_game
from openenv.core.exceptions import InvalidRequestError

NOT_PLAYABLE = {"crossword", "efg_game", "nfg_game"}


def test_every_registered_game_is_playable_but_those_that_cannot_be() -> None:
    refused = {game.short_name for game in pyspiel.registered_games() if game_type(game.short_name) is None}
    mean_field = {name for name in pyspiel.registered_names() if name.startswith("mfg_")}
    assert refused == mean_field | NOT_PLAYABLE


def test_an_unknown_game_is_answered_with_what_may_be_meant() -> None:
    assert "did you mean tic_tac_toe" in unknown_game("tictactoe")
    assert "there are 2048, add_noise, amazons" in unknown_game("???")
    with pytest.raises(InvalidRequestError, match="did you mean connect_four"):
        load_game("connect4", {}, 0)


def test_one_game_without_own_chance_serves_all_episodes() -> None:
    assert load_game("catch", {}, 1) is load_game("catch", {}, 2)


@pytest.mark.parametrize("name", ["negotiation", "tarok", "bridge_uncontested_bidding"])
def test_a_game_that_draws_by_itself_is_seeded_for_each_episode(name: str) -> None:
    assert str(load_game(name, {}, 1)) == str(load_game(name, {}, 1))
    assert str(load_game(name, {}, 1)) != str(load_game(name, {}, 2))
    assert load_game(name, {}, 1) is not load_game(name, {}, 1)


def test_a_whole_number_will_do_for_a_fraction() -> None:
    assert "komi=7" in str(load_game("go", {"komi": 7, "board_size": 5}, 0))


def test_a_parameter_may_be_a_game() -> None:
    assert str(load_game("misere", {"game": {"name": "tic_tac_toe"}}, 0)) == "misere(game=tic_tac_toe())"
    deep = {"stage_game": {"name": "matrix_pd"}, "num_repetitions": 2}
    assert "stage_game=matrix_pd()" in str(load_game("repeated_game", deep, 0))


@pytest.mark.parametrize(
    ("name", "params", "says"),
    [
        ("catch", {"depth": 3}, "Unknown parameter 'depth'"),
        ("catch", {"rows": "ten"}, "Expected type: kInt"),
        ("catch", {"rows": None}, "expected a number, a truth value or a text"),
        ("catch", {"rows": [1]}, "expected a number, a truth value or a text"),
        ("misere", {}, "Missing parameter game"),
        ("misere", {"game": "tic_tac_toe"}, "expected a game, such as"),
        ("misere", {"game": {}}, "expected a game, such as"),
        ("misere", {"game": {"name": "tictactoe"}}, "did you mean tic_tac_toe"),
        ("misere", {"game": {"name": "mfg_garnet"}}, "no game that can be played"),
        ("misere", {"game": {"name": "efg_game", "filename": "/etc/passwd"}}, "no game that can be played"),
        ("bargaining", {"instances_file": "/etc/passwd"}, "names a file on the server"),
        ("misere", {"game": {"name": "bargaining", "instances_file": "/etc/passwd"}}, "names a file on the server"),
        ("colored_trails", {"boards_file": "/etc/passwd"}, "names a file on the server"),
    ],
)
def test_wrong_parameters_are_refused_with_the_reason(name: str, params: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidRequestError, match=says):
        load_game(name, params, 0)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("catch", {"rows": 0}),
        ("connect_four", {"rows": 0}),
        ("coin_game", {"players": 0}),
        ("hanabi", {"colors": -1}),
        ("havannah", {"board_size": -1}),
        ("universal_poker", {"numRanks": 0}),
        ("go_fish", {"players": 0}),
    ],
)
def test_parameters_that_would_crash_the_server_are_refused(name: str, params: dict[str, object]) -> None:
    with pytest.raises(InvalidRequestError, match="cannot be played with"):
        load_game(name, params, 0)


def test_such_parameters_do_crash_openspiel() -> None:
    """The trial is worth its second only as long as this holds."""
    program = """
import pyspiel
state = pyspiel.load_game("connect_four", {"rows": 0}).new_initial_state()
print(state.legal_actions(), state.observation_tensor(0), state)
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False).returncode < 0


@pytest.mark.parametrize(
    ("name", "public"),
    [("tic_tac_toe", True), ("kuhn_poker", True), ("matrix_rps", True), ("phantom_ttt", False), ("dark_chess", False)],
)
def test_hidden_moves_are_known(name: str, public: bool) -> None:
    assert moves_are_public(load_game(name, {}, 0)) is public
