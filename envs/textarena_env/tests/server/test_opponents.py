from random import Random

import pytest

from openenv.core.exceptions import InvalidRequestError
from textarena_env import TextArenaObservation
from textarena_env.server.game import game_name, start
from textarena_env.server.library import registry
from textarena_env.server.moves import known_moves
from textarena_env.server.opponents import RandomOpponent, make_opponents

NOTHING = TextArenaObservation(prompt="")
LONG = {"Battleship-v0", "PigDice-v0", "Othello-v0-tiny"}  # the shortest, or cut off here, of games that take long


def shortest_id(name: str) -> str:
    ids = [env_id for env_id in registry() if not env_id.endswith(("-raw", "-train")) and game_name(env_id) == name]
    return next((env_id for env_id in ids if env_id in LONG), ids[0])


@pytest.mark.level("files")
@pytest.mark.parametrize("name", known_moves())
def test_a_random_opponent_makes_legal_moves_up_to_the_end(name: str) -> None:
    game = start(shortest_id(name), None, 1, 4, {})
    opponent = RandomOpponent(known_moves()[name], Random(1))
    for _ in range(60):
        if game.over:
            break
        assert game.play(opponent.move(game, NOTHING))
    assert game.over or game.turn >= 40


def test_every_legal_move_may_be_made() -> None:
    game = start("TicTacToe-v0", None, 1, 1, {})
    game.play("[4]")
    made = {RandomOpponent(known_moves()["TicTacToe"], Random(seed)).move(game, NOTHING) for seed in range(100)}
    assert made == {f"[{cell}]" for cell in range(9) if cell != 4}


def test_where_no_move_is_legal_one_is_made_all_the_same() -> None:
    game = start("TicTacToe-v0", None, 1, 1, {})
    game.play("[4]")
    assert RandomOpponent(("[4]",), Random(1)).move(game, NOTHING) == "[4]"


def test_every_other_player_is_an_opponent() -> None:
    game = start("ThreePlayerTicTacToe-v0", None, 1, 1, {})
    assert make_opponents("random", game, 1, 5).keys() == {0, 2}


@pytest.mark.parametrize(
    ("env_id", "kind", "player_id", "says"),
    [
        ("TicTacToe-v0", "random", 2, "from 0 to 1 in TicTacToe-v0, got"),
        ("TicTacToe-v0", "random", -1, "from 0 to 1 in TicTacToe-v0, got"),
        ("Codenames-v0", "random", 0, "no random opponents for Codenames-v0; there are for Battleship"),
        ("ConnectFour-v0", "scripted", 0, "there are for TicTacToe"),
        ("ConnectFour-v0", "participant", 0, "start it with the variable TEXTARENA_PARTICIPANT"),
    ],
)
def test_unknown_players_and_opponents_are_refused(env_id: str, kind: str, player_id: int, says: str) -> None:
    game = start(env_id, None, 1, 1, {})
    with pytest.raises(InvalidRequestError, match=says):
        make_opponents(kind, game, player_id, 1)  # type: ignore[arg-type]  # one of them
