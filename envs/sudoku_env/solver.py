"""Finds the solutions of a grid."""

from collections.abc import Sequence
from random import Random

from .grid import ALL_DIGITS, BOXES, CELLS, COLUMNS, ROWS, SIZE, Grid, digits


def solutions(grid: Sequence[int], limit: int = 2, random: Random | None = None) -> list[Grid]:
    """Find solutions of a grid.

    Args:
        grid: The grid, with no digit twice in a unit.
        limit: How many to find at most; with 2, one solution found means that there is no other.
        random: Chooses which digit is tried first, where several may stand; without it, the smallest.

    Returns:
        The solutions.

    Example:
        >>> from sudoku_env.grid import EMPTY
        >>> len(solutions(EMPTY, limit=3))
        3
    """
    search = _Search(grid, limit, random)
    search.run()
    return search.found


class _Search:
    """Tries digits cell by cell, always where the fewest may stand.

    What a cell may hold is kept as the free digits of its row, its column and its box: three numbers to put together,
    where looking at the cells would be twenty.
    """

    def __init__(self, grid: Sequence[int], limit: int, random: Random | None) -> None:
        self.found: list[Grid] = []
        self._grid = list(grid)
        self._limit = limit
        self._random = random
        self._empty = [cell for cell in CELLS if grid[cell] == 0]
        self._rows, self._columns, self._boxes = [ALL_DIGITS] * SIZE, [ALL_DIGITS] * SIZE, [ALL_DIGITS] * SIZE
        for cell in CELLS:
            if grid[cell]:
                self._toggle(cell, grid[cell])

    def run(self) -> None:
        """Fill the empty cells in every way, up to the limit."""
        if not self._empty:
            self.found.append(tuple(self._grid))
            return
        place, free = self._tightest()
        cell = self._empty.pop(place)
        for digit in self._order(free):
            self._grid[cell] = digit
            self._toggle(cell, digit)
            self.run()
            self._toggle(cell, digit)
            if len(self.found) >= self._limit:
                break
        self._grid[cell] = 0
        self._empty.insert(place, cell)

    def _tightest(self) -> tuple[int, int]:
        """Return the index, among the empty cells, of the one with the fewest candidates, and these."""
        rows, columns, boxes = self._rows, self._columns, self._boxes
        tightest, fewest, best = 0, SIZE + 1, 0
        for place, cell in enumerate(self._empty):
            free = rows[ROWS[cell]] & columns[COLUMNS[cell]] & boxes[BOXES[cell]]
            count = free.bit_count()
            if count < fewest:
                tightest, fewest, best = place, count, free
                if count <= 1:
                    break
        return tightest, best

    def _order(self, free: int) -> list[int]:
        order = digits(free)
        if self._random is not None:
            self._random.shuffle(order)
        return order

    def _toggle(self, cell: int, digit: int) -> None:
        """Take a digit from the free ones of a cell's units, or give it back."""
        self._rows[ROWS[cell]] ^= 1 << digit
        self._columns[COLUMNS[cell]] ^= 1 << digit
        self._boxes[BOXES[cell]] ^= 1 << digit
