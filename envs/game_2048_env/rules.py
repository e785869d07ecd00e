"""Moves of the tiles, as pure functions on boards."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from .models import Move

Row = tuple[int, ...]
Board = tuple[Row, ...]
"""Four rows of four tiles, the top row first; 0 where there is none."""


def as_board(tiles: Sequence[Sequence[int]]) -> Board:
    """Turn the board of an observation into one that the functions here take."""
    return tuple(map(tuple, tiles))


def slides(board: Board) -> Iterator[tuple[Move, Board, int]]:
    """Try the four moves.

    Args:
        board: The board before the move.

    Yields:
        Each move that slides a tile, with the board before a new tile comes, and what the move gains.

    Example:
        >>> board = ((2, 2, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0))
        >>> [(move, after[0], gain) for move, after, gain in slides(board)]
        [('right', (0, 0, 0, 4), 4), ('down', (0, 0, 0, 0), 0), ('left', (4, 0, 0, 0), 4)]
    """
    columns = tuple(zip(*board, strict=True))
    up, gain_upright = _slid(columns, forward=True)
    down, _ = _slid(columns, forward=False)
    left, gain_sideways = _slid(board, forward=True)
    right, _ = _slid(board, forward=False)
    if up != columns:
        yield "up", tuple(zip(*up, strict=True)), gain_upright
    if right != board:
        yield "right", right, gain_sideways
    if down != columns:
        yield "down", tuple(zip(*down, strict=True)), gain_upright
    if left != board:
        yield "left", left, gain_sideways


def _slid(rows: Board, *, forward: bool) -> tuple[Board, int]:
    results = [_slid_row(row if forward else row[::-1]) for row in rows]
    after = tuple(row if forward else row[::-1] for row, _ in results)
    return after, sum(gain for _, gain in results)


# Few of the possible rows come up in play, but these again and again.
@lru_cache(maxsize=100_000)
def _slid_row(row: Row) -> tuple[Row, int]:
    """Slide a row towards its first cell; a tile that was merged is not merged again."""
    waiting, after, gain = [tile for tile in row if tile], [], 0
    while waiting:
        tile = waiting.pop(0)
        if waiting and waiting[0] == tile:
            tile += waiting.pop(0)
            gain += tile
        after.append(tile)
    return (*after, *[0] * (len(row) - len(after))), gain
