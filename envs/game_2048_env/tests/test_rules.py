import pytest
from hypothesis import given
from hypothesis import strategies as st

from game_2048_env.rules import Board, as_board, slides

BOARDS = st.lists(st.sampled_from((0, 0, 2, 4, 8)), min_size=16, max_size=16).map(
    lambda tiles: as_board([tiles[start : start + 4] for start in (0, 4, 8, 12)])
)
EMPTY = (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("row", "after", "gain"),
    [
        ((2, 2, 2, 2), (4, 4, 0, 0), 8),
        ((4, 2, 2, 0), (4, 4, 0, 0), 4),  # what was merged is not merged again
        ((2, 2, 2, 0), (4, 2, 0, 0), 4),  # the two in front are merged
        ((2, 0, 0, 2), (4, 0, 0, 0), 4),
        ((0, 2, 4, 2), (2, 4, 2, 0), 0),
        ((2, 0, 4, 4), (2, 8, 0, 0), 8),
    ],
)
def test_known_rows(row: tuple[int, ...], after: tuple[int, ...], gain: int) -> None:
    found = {move: (board, points) for move, board, points in slides((row, EMPTY, EMPTY, EMPTY))}
    assert found["left"] == ((after, EMPTY, EMPTY, EMPTY), gain)
    mirrored = {move: (board, points) for move, board, points in slides((row[::-1], EMPTY, EMPTY, EMPTY))}
    assert mirrored["right"] == ((after[::-1], EMPTY, EMPTY, EMPTY), gain)


def test_a_row_without_room_does_not_slide() -> None:
    assert [move for move, _, _ in slides(((2, 4, 8, 16), EMPTY, EMPTY, EMPTY))] == ["down"]
    full: Board = ((2, 4, 2, 4), (4, 2, 4, 2), (2, 4, 2, 4), (4, 2, 4, 2))
    assert list(slides(full)) == []


@given(BOARDS)
def test_turning_the_board_turns_the_moves(board: Board) -> None:
    turned = {move: (after, gain) for move, after, gain in slides(tuple(zip(*board, strict=True)))}
    straight = {
        {"up": "left", "left": "up", "down": "right", "right": "down"}[move]: (tuple(zip(*after, strict=True)), gain)
        for move, after, gain in slides(board)
    }
    assert turned == straight


@given(BOARDS)
def test_a_slide_keeps_the_sum_of_the_tiles(board: Board) -> None:
    for _, after, gain in slides(board):
        assert sum(map(sum, after)) == sum(map(sum, board))
        assert gain % 4 == 0
        assert after != board
