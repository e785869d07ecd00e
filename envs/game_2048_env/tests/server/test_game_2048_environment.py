from random import Random

import pytest

from game_2048_env import Game2048Action, Game2048Observation
from game_2048_env.player import make_player
from game_2048_env.rules import Board, as_board, slides
from game_2048_env.server.game_2048_environment import Game2048Environment
from openenv.core.exceptions import IllegalActionError


def new_tiles(before: tuple[tuple[int, ...], ...], after: list[list[int]]) -> list[int]:
    pairs = zip(before, after, strict=True)
    return [tile for old, new in pairs for was, tile in zip(old, new, strict=True) if was != tile]


def check_move(before: Game2048Observation, move: str, after: Game2048Observation) -> int:
    """Compare a move with the rules, and return the tile that came."""
    slid: dict[str, tuple[Board, int]] = {name: (board, gain) for name, board, gain in slides(as_board(before.board))}
    board, gain = slid[move]
    assert list(slid) == before.legal_moves
    assert (after.reward, after.score) == (float(gain), before.score + gain)
    assert type(after.reward) is float
    assert after.info_state == [float(tile) for row in after.board for tile in row]
    came = new_tiles(board, after.board)
    assert len(came) == 1
    return came[0]


def test_boards_moves_and_rewards_follow_the_rules() -> None:
    environment, random, came = Game2048Environment(), Random(1), []
    for seed in range(30):
        observation = environment.reset(seed=seed)
        assert sorted(tile for row in observation.board for tile in row)[:14] == [0] * 14
        assert (observation.score, observation.reward, observation.done) == (0, None, False)
        while not observation.done:
            move = random.choice(observation.legal_moves)
            before, observation = observation, environment.step(Game2048Action(move=move))
            came.append(check_move(before, move, observation))
        assert list(slides(as_board(observation.board))) == []
        assert observation.text.endswith("No tile can slide.")
    assert set(came) == {2, 4}
    assert 0.07 < came.count(4) / len(came) < 0.13


def test_a_move_that_slides_nothing_is_refused_and_changes_nothing() -> None:
    environment = Game2048Environment()
    observation = environment.reset(seed=1)  # two tiles at the left edge
    picture = environment.render()
    with pytest.raises(IllegalActionError, match="play one of up, right, down"):
        environment.step(Game2048Action(move="left"))
    assert (environment.render(), environment.state.step_count) == (picture, 0)
    assert observation.legal_moves == ["up", "right", "down"]


def test_the_tile_2048_ends_the_episode() -> None:
    environment, player = Game2048Environment(), make_player(0)
    observation = environment.reset(seed=0)
    while not observation.done:
        observation = environment.step(player(observation))
    assert max(map(max, observation.board)) == 2048
    assert observation.text.endswith("There is a tile 2048: won.")
    assert observation.legal_moves == []
