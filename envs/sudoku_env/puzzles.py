"""Puzzles by seed and difficulty. Each has one solution.

A full grid is drawn, and cells are emptied in a random order as long as the solution stays the only one. For the levels
up to ``medium``, a cell is emptied only where the others show at once what it held; read backwards, that is a way
to solve the puzzle without ever trying. Of the ``hard`` ones, about a quarter cannot be solved in that way alone.
"""

from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Literal

from openenv.core.seeding import rng

from .grid import CELLS, EMPTY, Grid, candidates, digits, is_single
from .solver import solutions

Difficulty = Literal["very-easy", "easy", "medium", "hard"]

CLUES: dict[Difficulty, int] = {"very-easy": 60, "easy": 45, "medium": 36, "hard": 28}
MOST_CLUES = len(CELLS) - 1


@dataclass(frozen=True)
class Puzzle:
    """A puzzle.

    Attributes:
        clues: The grid to fill.
        solution: The only full grid that has these clues.
    """

    clues: Grid
    solution: Grid


def make_puzzle(seed: int | None, difficulty: Difficulty, clues: int | None = None) -> Puzzle:
    """Make a puzzle.

    Args:
        seed: The same seed gives the same puzzle of a difficulty; ``None`` gives any.
        difficulty: How many clues it has, and what it takes to solve it.
        clues: More clues than that, up to 80: the same puzzle with some of its cells filled.

    Returns:
        The puzzle.

    Example:
        >>> puzzle = make_puzzle(7, "easy")
        >>> sum(digit > 0 for digit in puzzle.clues)
        45
    """
    clues = CLUES[difficulty] if clues is None else clues
    return _drawn(rng(None), difficulty, clues) if seed is None else _of_seed(seed, difficulty, clues)


# Trainers start a group of episodes with one seed.
@lru_cache(maxsize=256)
def _of_seed(seed: int, difficulty: Difficulty, clues: int) -> Puzzle:
    return _drawn(rng(seed, difficulty), difficulty, clues)


def _drawn(random: Random, difficulty: Difficulty, clues: int) -> Puzzle:
    while True:
        (solution,) = solutions(EMPTY, limit=1, random=random)
        emptied = _emptied(solution, CLUES[difficulty], random, by_looking=difficulty != "hard")
        if emptied is not None:
            return Puzzle(_filled(emptied, solution, clues, random), solution)


def solved_by_looking(clues: Grid) -> bool:
    """Return whether a puzzle can be solved by singles alone: no digit has ever to be tried."""
    grid = list(clues)
    left = [cell for cell in CELLS if grid[cell] == 0]
    while left:
        filled = [cell for cell in left if _fill_single(grid, cell)]
        if not filled:
            return False
        left = [cell for cell in left if grid[cell] == 0]
    return True


def _fill_single(grid: list[int], cell: int) -> bool:
    for digit in digits(candidates(grid, cell)):
        if is_single(grid, cell, digit):
            grid[cell] = digit
            return True
    return False


def _emptied(solution: Grid, clues: int, random: Random, *, by_looking: bool) -> Grid | None:
    """Empty cells until so many clues are left; ``None`` where that many must stay for the only solution."""
    grid, order = list(solution), list(CELLS)
    random.shuffle(order)
    left = len(order)
    for cell in order:
        if left == clues:
            break
        digit, grid[cell] = grid[cell], 0
        if is_single(grid, cell, digit) or (not by_looking and not _has_another(grid, cell, digit)):
            left -= 1
        else:
            grid[cell] = digit
    return tuple(grid) if left == clues else None


def _filled(emptied: Grid, solution: Grid, clues: int, random: Random) -> Grid:
    """Fill empty cells until there are so many clues."""
    empty = [cell for cell in CELLS if emptied[cell] == 0]
    left = set(random.sample(empty, len(CELLS) - clues))
    return tuple(0 if cell in left else digit for cell, digit in enumerate(solution))


def _has_another(grid: list[int], cell: int, digit: int) -> bool:
    """Return whether some solution has another digit in a cell."""
    others = [other for other in digits(candidates(grid, cell)) if other != digit]
    return any(solutions([*grid[:cell], other, *grid[cell + 1 :]], limit=1) for other in others)
