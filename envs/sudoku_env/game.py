"""A puzzle that is being solved."""

from dataclasses import dataclass, field

from .grid import COLUMNS, DIGITS, ROWS, SIZE, all_candidates, conflict, digits
from .puzzles import Puzzle

Move = tuple[int, int]  # a cell and a digit


@dataclass(frozen=True)
class Outcome:
    """Outcome of a move.

    Attributes:
        correct: Whether the digit is the solution's; only then it was written.
        message: The same in words.
    """

    correct: bool
    message: str


@dataclass
class Game:
    """A puzzle, and the moves that were made.

    Attributes:
        puzzle: The puzzle.
        max_moves: Moves that may be made.
        grid: The clues and the digits that were written.
        moves: Moves made, wrong ones included.
        tried: The wrong ones.
    """

    puzzle: Puzzle
    max_moves: int
    moves: int = 0
    grid: list[int] = field(init=False)
    tried: list[Move] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.grid = list(self.puzzle.clues)

    @property
    def solved(self) -> bool:
        """Return whether every cell is filled."""
        return 0 not in self.grid

    @property
    def over(self) -> bool:
        """Return whether no further move can be made."""
        return self.solved or self.moves >= self.max_moves

    @property
    def progress(self) -> float:
        """The share of the cells to fill that are filled."""
        to_fill = self.puzzle.clues.count(0)
        return (to_fill - self.grid.count(0)) / to_fill

    @property
    def board(self) -> list[str]:
        """The grid as nine rows of characters."""
        cells = "".join(str(digit) if digit else "." for digit in self.grid)
        return [cells[start : start + SIZE] for start in range(0, len(cells), SIZE)]

    def play(self, cell: int, digit: int) -> Outcome:
        """Write a digit, if it is the right one.

        Args:
            cell: An empty cell.
            digit: The digit.

        Returns:
            The outcome.
        """
        self.moves += 1
        if digit == self.puzzle.solution[cell]:
            self.grid[cell] = digit
            return Outcome(correct=True, message=_written(cell, digit))
        self.tried.append((cell, digit))
        return Outcome(correct=False, message=_wrong(cell, digit, conflict(self.grid, cell, digit)))

    def hints(self, most: int) -> list[tuple[int, list[int]]]:
        """Find where the fewest digits may stand.

        Args:
            most: Cells to return at most.

        Returns:
            Empty cells, and the digits that may stand there and were not tried, the fewest first.
        """
        if most == 0:
            return []
        possible = all_candidates(self.grid)
        for cell, digit in self.tried:
            if cell in possible:
                possible[cell] &= ~(1 << digit)
        tightest = sorted(possible, key=lambda cell: possible[cell].bit_count())[:most]
        return [(cell, digits(possible[cell])) for cell in tightest]


def cell_at(row: int, col: int) -> int:
    """Return the cell of a row and a column, both counted from 1."""
    return (row - 1) * SIZE + col - 1


def place_of(cell: int) -> tuple[int, int]:
    """Return the row and the column of a cell, both counted from 1."""
    return ROWS[cell] + 1, COLUMNS[cell] + 1


def grid_of(board: list[str]) -> list[int]:
    """Read a board's rows.

    Raises:
        ValueError: They are not nine rows of nine digits or dots.
    """
    cells = "".join(board)
    if [len(row) for row in board] != [SIZE] * SIZE or not set(cells) <= {".", *map(str, DIGITS)}:
        raise ValueError(f"Expected nine rows of nine characters, each a digit from 1 to 9 or a dot, got {board!r}.")
    return [0 if cell == "." else int(cell) for cell in cells]


def _written(cell: int, digit: int) -> str:
    row, col = place_of(cell)
    return f"Right: {digit} stands in row {row}, column {col}."


def _wrong(cell: int, digit: int, where: str | None) -> str:
    row, col = place_of(cell)
    why = f"{where} has it already" if where is not None else "it breaks no rule yet, but leads to no solution"
    return f"Wrong: {digit} cannot stand in row {row}, column {col}; {why}."
