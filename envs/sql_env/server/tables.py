"""Results as text, for people and language models."""

from collections.abc import Mapping, Sequence

from ..models import Value
from .workers import Table

MAX_WIDTH = 60
"""Characters of one value in a table."""
MAX_LENGTH = 10_000
"""Characters of a whole table."""


def table_text(table: Table) -> str:
    """Draw a result.

    Args:
        table: The result.

    Returns:
        A line for the columns, one for each row, and how many rows there are.

    Example:
        >>> print(table_text(Table(["name", "n"], [["Ada", 12], ["O'Brien", None]], False)))
        name    | n
        --------+-----
        Ada     | 12
        O'Brien | NULL
        2 rows
    """
    cells = [[_cell(name) for name in table.columns], *([_cell(value) for value in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [_line(row, widths) for row in cells]
    rule = "-+-".join("-" * width for width in widths)
    drawn = "\n".join([lines[0], rule, *lines[1:]])
    if len(drawn) > MAX_LENGTH:
        drawn = f"{drawn[:MAX_LENGTH]}..."
    return f"{drawn}\n{_count(table)}"


def tables_text(tables: Mapping[str, Sequence[str]]) -> str:
    """List tables with their columns, one in each line."""
    return "\n".join(f"{name}({', '.join(columns)})" for name, columns in tables.items())


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _cell(value: Value) -> str:
    """Write a value in one line of bounded length, without anything that a terminal obeys."""
    text = "NULL" if value is None else str(value)
    plain = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return plain if len(plain) <= MAX_WIDTH else f"{plain[: MAX_WIDTH - 3]}..."


def _count(table: Table) -> str:
    count = "1 row" if len(table.rows) == 1 else f"{len(table.rows)} rows"
    return f"{count}; there are more, or longer values" if table.truncated else count
