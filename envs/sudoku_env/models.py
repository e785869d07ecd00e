"""Actions and observations of Sudoku."""

from pydantic import BaseModel, Field

from openenv.core.env_server.types import Action, Observation, State

from .puzzles import Difficulty


class SudokuAction(Action):
    """Write a digit into an empty cell.

    Attributes:
        row: The row, from 1 at the top to 9.
        col: The column, from 1 on the left to 9.
        number: The digit.
    """

    row: int = Field(ge=1, le=9, description="The row, from 1 at the top to 9")
    col: int = Field(ge=1, le=9, description="The column, from 1 on the left to 9")
    number: int = Field(ge=1, le=9, description="The digit to write there")


class SudokuHint(BaseModel):
    """What may still stand in a cell.

    Attributes:
        row: The cell's row.
        col: The cell's column.
        numbers: The digits that neither its row, nor its column, nor its box has, and that were not tried there.
    """

    row: int
    col: int
    numbers: list[int]


class SudokuObservation(Observation):
    """The grid after a move.

    Attributes:
        board: Nine rows of nine characters: a digit, or ``.`` for an empty cell.
        valid: Whether the last move was right, and the digit stands there now; ``None`` after a reset.
        message: What came of the last move, in words; empty after a reset.
        progress: The share of the cells to fill that are filled, from 0.0 to 1.0.
        moves_left: Moves that remain.
        hints: Empty cells where the fewest digits may stand, as many as the reset asked for.
        tried: The wrong moves so far as ``[row, col, number]``, the first one first.
        text: The same in words, for a language model.
    """

    board: list[str]
    valid: bool | None = None
    message: str = ""
    progress: float = 0.0
    moves_left: int = 0
    hints: list[SudokuHint] = Field(default_factory=list)
    tried: list[list[int]] = Field(default_factory=list)
    text: str = ""


class SudokuState(State):
    """Where the episode stands. It never holds the solution.

    Attributes:
        difficulty: The level.
        board: The grid, as in the observation.
        clues: Cells that were filled from the beginning.
        max_moves: Moves in an episode.
        solved: Whether every cell is filled.
    """

    difficulty: Difficulty = "easy"
    board: list[str] = Field(default_factory=list)
    clues: int = 0
    max_moves: int = 0
    solved: bool = False
