"""The board as people and language models see it."""

from collections.abc import Mapping, Sequence
from typing import Any

from openenv.core.env_server.web.boards import Board, Square, board_html

TARGET = 2048

_RULES = (
    "2048: all tiles slide up, right, down or left; two equal tiles that meet become one, which counts as many points "
    f"as it shows. Reach the tile {TARGET}."
)
# ECMA-48 "Select Graphic Rendition", 256-colour form, from 2 to 2048: sand, orange, red, violet.
_COLOURS = (230, 229, 223, 216, 209, 203, 228, 227, 221, 177, 135)
_PLAIN = "\x1b[0m"

# From sand over orange to red, as the tiles grow.
_TILES = "".join(
    f"td.bits-{bits} {{ background: hsl({max(50 - 5 * bits, 0)} 90% {92 - 3 * bits}%) }}\n" for bits in range(2, 19)
)
_STYLE = f"""
table {{ border-spacing: 8px; border-radius: 8px; background: light-dark(#bdb3a6, #3b3a38) }}
td {{ width: 76px; height: 76px; font-size: 26px; font-weight: 700; border-radius: 5px;
     background: light-dark(#d2c8bb, #4d4b48); color: #1b1d21 }}
{_TILES}"""


def in_words(board: Sequence[Sequence[int]], score: int, moves: Sequence[str], *, initial: bool) -> str:
    """Describe a position to a language model.

    Args:
        board: Four rows of four tiles; 0 where there is none.
        score: The sum of the rewards so far.
        moves: The moves that slide a tile; none at the end.
        initial: Whether nothing was played yet; the rules are part of the text then.

    Returns:
        The board, and how the game stands.

    Example:
        >>> print(in_words([[0, 2], [4, 1024]], 12, ["up"], initial=False))
            .    2
            4 1024
        Score: 12. Moves: up
    """
    rows = ["".join(f"{tile or '.':>5}" for tile in row) for row in board]
    return "\n".join([*([_RULES] if initial else []), *rows, _standing(board, score, moves)])


def drawn(board: Sequence[Sequence[int]], score: int, moves: Sequence[str]) -> str:
    """Draw a position for a terminal, each tile in its colour.

    Args:
        board: Four rows of four tiles; 0 where there is none.
        score: The sum of the rewards so far.
        moves: The moves that slide a tile; none at the end.

    Returns:
        Text with colour codes.
    """
    return "\n".join([*("".join(map(_tile, row)) for row in board), _standing(board, score, moves)])


def as_html(observation: Mapping[str, Any]) -> str:
    """Draw a position for a page.

    Args:
        observation: A ``Game2048Observation`` as JSON.

    Returns:
        HTML with its own styles.
    """
    board = observation["board"]
    standing = _standing(board, observation["score"], observation["legal_moves"])
    return board_html(Board([map(_square, row) for row in board]), standing, style=_STYLE)


def _square(tile: int) -> Square:
    return Square(str(tile), f"bits-{tile.bit_length()}") if tile else Square()


def _standing(board: Sequence[Sequence[int]], score: int, moves: Sequence[str]) -> str:
    if moves:
        return f"Score: {score}. Moves: {', '.join(moves)}"
    won = max(map(max, board)) >= TARGET
    return f"Score: {score}. {f'There is a tile {TARGET}: won.' if won else 'No tile can slide.'}"


def _tile(tile: int) -> str:
    if tile == 0:
        return f"{'.':^6}"
    colour = _COLOURS[min(tile.bit_length() - 2, len(_COLOURS) - 1)]
    return f"\x1b[30;48;5;{colour}m{tile:^6}{_PLAIN}"
