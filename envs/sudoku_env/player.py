"""A player that solves the puzzle and writes down what it found."""

from collections.abc import Callable

from openenv.core.seeding import rng

from .game import grid_of, place_of
from .models import SudokuAction, SudokuObservation
from .solver import solutions


class SudokuPlayer:
    """Fills the empty cells in a random order, never with a wrong digit.

    Args:
        seed: The same seed makes the same choices.
    """

    def __init__(self, seed: int) -> None:
        self._random = rng(seed, "player")
        self._solution: tuple[int, ...] = ()

    def __call__(self, observation: SudokuObservation) -> SudokuAction:
        """Choose the next cell.

        Args:
            observation: The board. The first one is solved; the later ones have the cells that are left.

        Returns:
            The move.
        """
        grid = grid_of(observation.board)
        if not self._solution:
            self._solution = solutions(grid, limit=1)[0]
        cell = self._random.choice([cell for cell, digit in enumerate(grid) if digit == 0])
        row, col = place_of(cell)
        return SudokuAction(row=row, col=col, number=self._solution[cell])


def make_player(seed: int) -> Callable[[SudokuObservation], SudokuAction]:
    """Make a player for one episode.

    Args:
        seed: Of its random choices.

    Returns:
        A function from observations to actions.
    """
    return SudokuPlayer(seed)
