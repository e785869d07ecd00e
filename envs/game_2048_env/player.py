"""A player that keeps the board tidy, and looks a move ahead where it is nearly full."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise

from .models import Game2048Action, Game2048Observation, Move
from .rules import Board, Row, as_board, slides

# Looking ahead costs a few hundred microseconds and helps most where space is short.
_FEW_EMPTY = 4
_LOST = -1e6


def make_player(seed: int) -> Callable[[Game2048Observation], Game2048Action]:
    """Make a player for one episode.

    Args:
        seed: Not used: of moves that look equally good it takes the first.

    Returns:
        A function from observations to actions.
    """
    return best_action


def best_action(observation: Game2048Observation) -> Game2048Action:
    """Choose a move.

    Args:
        observation: The board, on which a tile can slide.

    Returns:
        The move.
    """
    return Game2048Action(move=best_move(as_board(observation.board)))


def best_move(board: Board) -> Move:
    """Choose the move with the best prospects.

    Args:
        board: A board on which a tile can slide.

    Returns:
        The move; of equal ones the first of up, right, down, left.
    """
    return max(slides(board), key=lambda slide: slide[2] + _prospects(slide[1]))[0]


def _prospects(board: Board) -> float:
    """Return the value of a board before a new tile comes."""
    if sum(row.count(0) for row in board) > _FEW_EMPTY:
        return _tidiness(board)
    replies = [_best_reply(after) for after in _with_new_tile(board)]
    return sum(replies) / len(replies) if replies else _LOST


def _best_reply(board: Board) -> float:
    return max((gain + _tidiness(after) for _, after, gain in slides(board)), default=_LOST)


def _with_new_tile(board: Board) -> Iterator[Board]:
    """Return the boards with a 2 in one of the empty cells; a 4 is too rare to matter."""
    for number, row in enumerate(board):
        for place, tile in enumerate(row):
            if tile == 0:
                filled = (*row[:place], 2, *row[place + 1 :])
                yield (*board[:number], filled, *board[number + 1 :])


def _tidiness(board: Board) -> float:
    return sum(map(_row_tidiness, board)) + sum(map(_row_tidiness, zip(*board, strict=True)))


@lru_cache(maxsize=100_000)
def _row_tidiness(row: Row) -> float:
    """Value a row or column: empty cells and equal neighbours are good; ups and downs among large tiles are not.

    The weights were found by trying: this player reaches the tile 2048 in most games.
    """
    powers = [tile.bit_length() - 1 if tile else 0 for tile in row]
    steps = [(later - sooner, max(sooner, later) ** 2) for sooner, later in pairwise(powers)]
    rising = sum(step * weight for step, weight in steps if step > 0)
    falling = sum(-step * weight for step, weight in steps if step < 0)
    pairs = sum(1 for tile, following in pairwise(row) if tile and tile == following)
    return 100 * row.count(0) + 150 * pairs - 3 * min(rising, falling) - sum(power**3 for power in powers)
