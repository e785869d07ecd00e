"""Sudoku's grid and its one rule, as pure functions.

A grid is a sequence of 81 numbers, row after row; 0 is an empty cell. A cell is its index in that sequence. A set of
digits is an ``int`` whose bit ``1 << digit`` is set for each of them, which makes the search for solutions fast.
"""

from collections.abc import Sequence

SIZE, BOX = 9, 3
CELLS = range(SIZE * SIZE)
DIGITS = range(1, SIZE + 1)
ALL_DIGITS = sum(1 << digit for digit in DIGITS)

Grid = tuple[int, ...]

EMPTY: Grid = (0,) * (SIZE * SIZE)

# The row, the column and the box of each cell.
ROWS = [cell // SIZE for cell in CELLS]
COLUMNS = [cell % SIZE for cell in CELLS]
BOXES = [cell // SIZE // BOX * BOX + cell % SIZE // BOX for cell in CELLS]

# The cells of each cell's row, column and box.
UNITS = [
    tuple(tuple(other for other in CELLS if where[other] == where[cell]) for where in (ROWS, COLUMNS, BOXES))
    for cell in CELLS
]


def candidates(grid: Sequence[int], cell: int) -> int:
    """Find what may stand in a cell.

    Args:
        grid: The grid.
        cell: An empty cell.

    Returns:
        The set of digits that no cell of its row, column and box has.
    """
    taken = 0
    for unit in UNITS[cell]:
        for other in unit:
            taken |= 1 << grid[other]
    return ALL_DIGITS & ~taken


def all_candidates(grid: Sequence[int]) -> dict[int, int]:
    """Find the digits that may stand in each empty cell; quicker than cell by cell.

    Args:
        grid: The grid.

    Returns:
        The sets of digits by the cells.
    """
    rows, columns, boxes = [0] * SIZE, [0] * SIZE, [0] * SIZE
    for cell, digit in enumerate(grid):
        rows[ROWS[cell]] |= 1 << digit
        columns[COLUMNS[cell]] |= 1 << digit
        boxes[BOXES[cell]] |= 1 << digit
    return {
        cell: ALL_DIGITS & ~(rows[ROWS[cell]] | columns[COLUMNS[cell]] | boxes[BOXES[cell]])
        for cell, digit in enumerate(grid)
        if digit == 0
    }


def digits(found: int) -> list[int]:
    """List a set of digits in ascending order."""
    return [digit for digit in DIGITS if found >> digit & 1]


def conflict(grid: Sequence[int], cell: int, digit: int) -> str | None:
    """Return the unit of a cell that has a digit already.

    Args:
        grid: The grid.
        cell: An empty cell.
        digit: What is to stand there.

    Returns:
        ``row 3``, ``column 5`` or ``its box``; ``None`` where no unit has it.
    """
    names = (f"row {ROWS[cell] + 1}", f"column {COLUMNS[cell] + 1}", "its box")
    for name, unit in zip(names, UNITS[cell], strict=True):
        if any(grid[other] == digit for other in unit):
            return name
    return None


def is_single(grid: Sequence[int], cell: int, digit: int) -> bool:
    """Return whether an empty cell is seen at once to have a digit.

    Args:
        grid: The grid.
        cell: An empty cell.
        digit: A digit that may stand there.

    Returns:
        Whether the cell can have no other digit, or no other cell of its row, its column or its box can have this one.
    """
    if candidates(grid, cell) == 1 << digit:
        return True
    holders = [other for other in CELLS if grid[other] == digit]
    rows, columns, boxes = ({where[holder] for holder in holders} for where in (ROWS, COLUMNS, BOXES))
    places = {
        other
        for other in CELLS
        if not (grid[other] or ROWS[other] in rows or COLUMNS[other] in columns or BOXES[other] in boxes)
    }
    places.discard(cell)
    return any(places.isdisjoint(unit) for unit in UNITS[cell])
