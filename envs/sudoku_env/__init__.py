"""Sudoku: fill the grid."""

from .client import SudokuEnv
from .models import SudokuAction, SudokuHint, SudokuObservation, SudokuState

__all__ = ["SudokuAction", "SudokuEnv", "SudokuHint", "SudokuObservation", "SudokuState"]
