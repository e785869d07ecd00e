"""The reward of a move, and the parts that are seen beside it."""

from openenv.core.rubrics import Rubric, WeightedSum

from ..game import cell_at
from ..grid import UNITS
from ..models import SudokuAction, SudokuObservation


class Solved(Rubric):
    """1.0 for the move that fills the last cell, 0.0 for any other."""

    def forward(self, action: SudokuAction, observation: SudokuObservation) -> float:
        """Look whether every cell is filled."""
        return float(observation.progress == 1.0)


class Validity(Rubric):
    """1.0 for a digit that stood in no unit of its cell yet, 0.0 for any other."""

    def forward(self, action: SudokuAction, observation: SudokuObservation) -> float:
        """Look for the digit in the cell's units; a wrong one was not written."""
        if observation.valid:
            return 1.0
        board, digit = "".join(observation.board), str(action.number)
        units = UNITS[cell_at(action.row, action.col)]
        return float(not any(board[cell] == digit for unit in units for cell in unit))


class Correct(Rubric):
    """1.0 for the solution's digit, 0.0 for any other."""

    def forward(self, action: SudokuAction, observation: SudokuObservation) -> float:
        """Look whether the digit was written."""
        return float(bool(observation.valid))


class Progress(Rubric):
    """The share of the cells to fill that are filled."""

    def forward(self, action: SudokuAction, observation: SudokuObservation) -> float:
        """Read it from the observation."""
        return observation.progress


class Repetitions(Rubric):
    """1.0 less how often the same wrong move was made before."""

    def forward(self, action: SudokuAction, observation: SudokuObservation) -> float:
        """Count the move among those that were tried, the last one among them."""
        if observation.valid:
            return 1.0
        return 2.0 - observation.tried.count([action.row, action.col, action.number])


def sudoku_reward() -> WeightedSum:
    """Return the environment's reward: ``sudoku.solved`` alone; the other parts are seen, and do not count."""
    seen = {
        "sudoku.validity": Validity(),
        "sudoku.correct": Correct(),
        "sudoku.progress": Progress(),
        "sudoku.repetitions": Repetitions(),
    }
    return WeightedSum({"sudoku.solved": Solved(), **seen}, {"sudoku.solved": 1.0, **dict.fromkeys(seen, 0.0)})
