"""Comparison of an answer with the right one."""

import json
from collections.abc import Sequence
from math import isclose

from pydantic_core import from_json

from ..models import Answer, Value

TOLERANCE = 1e-6
"""Numbers are equal that differ by no more than this part of the larger one, or by no more than this."""

Rows = Sequence[Sequence[Value]]


def is_right(given: Rows, expected: Rows, ordered: bool) -> bool:
    """Compare an answer's rows with the right ones.

    Args:
        given: The answer's rows.
        expected: The right rows.
        ordered: Whether they must come in the same order.

    Example:
        >>> is_right([["b", 2], ["a", 1.0]], [["a", 1], ["b", 2]], ordered=False)
        True
    """
    if len(given) != len(expected):
        return False
    if ordered:
        return all(map(_rows_equal, given, expected))
    left = list(expected)
    for row in given:
        match = next((number for number, other in enumerate(left) if _rows_equal(row, other)), None)
        if match is None:
            return False
        del left[match]
    return True


def rows_of(answer: Answer, expected: Rows) -> Rows:
    """Read an answer as rows.

    Args:
        answer: One value, a list of values or a list of rows; any of them may be written as text.
        expected: The right rows: a flat list is one row of these if there is but one, else a value for each row.

    Example:
        >>> rows_of("[1, 2]", [[1, 2]]), rows_of([1, 2], [[1], [2]]), rows_of("Ada", [["Ada"]])
        ([[1, 2]], [[1], [2]], [['Ada']])
    """
    answer = _read(answer) if isinstance(answer, str) else answer
    if not isinstance(answer, list):
        return [[answer]]
    if all(isinstance(row, list) for row in answer):
        return [row for row in answer if isinstance(row, list)]
    values = [value for value in answer if not isinstance(value, list)]
    if len(values) < len(answer):  # some rows, some values
        return [row if isinstance(row, list) else [row] for row in answer]
    if len(expected) == 1 and len(values) == len(expected[0]):
        return [values]
    return [[value] for value in values]


def _read(text: str) -> Answer:
    """Read a list from a text; any other text is a value."""
    text = text.strip()
    if not text.startswith("["):
        return text
    try:
        read = from_json(text)
    except ValueError:
        return text
    return [_readable(row) for row in read]


def _readable(row: object) -> Value | list[Value]:
    if isinstance(row, list):
        return [value if isinstance(value, str | int | float | None) else json.dumps(value) for value in row]
    return row if isinstance(row, str | int | float | None) else json.dumps(row)


def _rows_equal(given: Sequence[Value], expected: Sequence[Value]) -> bool:
    return len(given) == len(expected) and all(map(_values_equal, given, expected))


def _values_equal(given: Value, expected: Value) -> bool:
    """Compare values: numbers within the tolerance, also one that is written as text; texts without outer blanks."""
    if isinstance(given, str) and isinstance(expected, str):
        return given.strip() == expected.strip()
    if given is None or expected is None:
        return given is expected or str(given).strip().lower() == "null"
    number, right = _number(given), _number(expected)
    return number is not None and right is not None and isclose(number, right, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _number(value: str | int | float) -> float | None:
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
