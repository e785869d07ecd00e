from textarena_env.server.game import game_name
from textarena_env.server.library import registry
from textarena_env.server.moves import known_moves


def test_every_game_is_one_of_textarena_s() -> None:
    assert known_moves().keys() <= {game_name(env_id) for env_id in registry()}


def test_moves_are_written_in_brackets_and_once() -> None:
    for name, moves in known_moves().items():
        assert len(moves) == len(set(moves)), name
        assert all(move.startswith("[") and move.endswith("]") for move in moves), name


def test_a_step_in_breakthrough_goes_one_row_and_at_most_one_column_aside() -> None:
    moves = known_moves()["Breakthrough"]
    assert {"[a1a2]", "[a1b2]", "[b2a3]", "[j10i9]"} < set(moves)
    assert not {"[a1a1]", "[a1a3]", "[a1c2]", "[a10a11]"} & set(moves)
