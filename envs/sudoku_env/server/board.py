"""The board as people and language models see it."""

from collections.abc import Callable, Mapping
from typing import Any

from openenv.core.env_server.web.boards import Board, Square, board_html

from ..game import Game, Outcome, place_of
from ..grid import BOX, CELLS, DIGITS, SIZE

# Bold for the clues, green for what was written: ECMA-48 "Select Graphic Rendition".
_CLUE, _WRITTEN, _EMPTY, _PLAIN = "\x1b[1m", "\x1b[32m", "\x1b[2m", "\x1b[0m"

_INDENT = "   "

_STYLE = """
table { border-collapse: collapse; border: 3px solid currentcolor }
td { width: 40px; height: 40px; font-size: 20px; border: 1px solid light-dark(#b9bdc4, #55595f) }
td:nth-child(3n) { border-right: 3px solid currentcolor }
tr:nth-child(3n) td { border-bottom: 3px solid currentcolor }
"""


def in_words(game: Game, outcome: Outcome | None, hints: list[tuple[int, list[int]]]) -> str:
    """Describe a position to a language model.

    Args:
        game: The position.
        outcome: Outcome of the last move; ``None`` where there was none.
        hints: Cells, and the digits that may stand there.

    Returns:
        The task or the outcome of the last move, the grid, hints, wrong moves, and how the game stands.
    """
    parts = [_task(game) if outcome is None else outcome.message, _drawn(game, _plain_cell), _standing(game)]
    if hints:
        parts += ["Hints: " + "; ".join(_hint(cell, numbers) for cell, numbers in hints) + "."]
    if game.tried:
        wrong = dict.fromkeys(f"{number} in {_place(cell)}" for cell, number in game.tried)
        parts += [f"Wrong so far: {', '.join(wrong)}."]
    return "\n".join(parts)


def coloured(game: Game, outcome: Outcome | None = None) -> str:
    """Draw a position for a terminal: clues bold, digits that were written green.

    Args:
        game: The position.
        outcome: Outcome of the last move; ``None`` where there was none.

    Returns:
        Text with colour codes.
    """
    said = [] if outcome is None else [outcome.message]
    return "\n".join([*said, _drawn(game, _coloured_cell), _standing(game)])


def as_html(observation: Mapping[str, Any]) -> str:
    """Draw a position for a page.

    Args:
        observation: A ``SudokuObservation`` as JSON.

    Returns:
        HTML with its own styles.
    """
    grid = Board([[Square("" if cell == "." else cell) for cell in row] for row in observation["board"]], "Grid")
    return board_html(observation["message"], grid, f"{observation['moves_left']} moves left.", style=_STYLE)


def _drawn(game: Game, cell_text: Callable[[Game, int], str]) -> str:
    titles = [f"C{number}" for number in DIGITS]
    lines = [_INDENT + _in_boxes(titles, "  ").rstrip()]
    for row in range(SIZE):
        if row and row % BOX == 0:
            lines.append(_INDENT + "+".join(["-" * 9] * 3))
        cells = [f" {cell_text(game, cell)}" for cell in CELLS[row * SIZE : (row + 1) * SIZE]]
        lines.append(f"R{row + 1} " + _in_boxes(cells, " |"))
    return "\n".join(lines)


def _in_boxes(cells: list[str], between: str) -> str:
    boxes = [" ".join(cells[start : start + BOX]) for start in range(0, SIZE, BOX)]
    return between.join(boxes)


def _plain_cell(game: Game, cell: int) -> str:
    return str(game.grid[cell] or ".")


def _coloured_cell(game: Game, cell: int) -> str:
    colour = _CLUE if game.puzzle.clues[cell] else _WRITTEN if game.grid[cell] else _EMPTY
    return f"{colour}{_plain_cell(game, cell)}{_PLAIN}"


def _task(game: Game) -> str:
    return (
        "Fill the empty cells so that each row, each column and each of the nine boxes holds every digit from 1 to 9. "
        f"Write one digit at a time; a wrong one is not written, and costs one of {game.max_moves} moves too."
    )


def _hint(cell: int, numbers: list[int]) -> str:
    return f"{_place(cell)} can be {' or '.join(map(str, numbers))}"


def _place(cell: int) -> str:
    return "R{}C{}".format(*place_of(cell))


def _standing(game: Game) -> str:
    if game.solved:
        return "Solved."
    left = game.grid.count(0)
    cells = "1 cell is empty" if left == 1 else f"{left} cells are empty"
    moves = game.max_moves - game.moves
    if moves == 0:
        return f"No moves left: {cells}."
    return f"{cells}; {'1 move' if moves == 1 else f'{moves} moves'} left."
