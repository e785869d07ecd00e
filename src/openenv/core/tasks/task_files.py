"""Files of tasks, read within bounds: Parquet, JSON Lines, JSON and CSV."""

import csv
import re
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from openenv.core.documents import (
    MAX_JSON_BYTES,
    check_json_size,
    check_value_count,
    open_regular,
    read_lines,
    read_text,
)
from openenv.core.exceptions import ConfigurationError

TASK_FILES = frozenset({".csv", ".json", ".jsonl", ".parquet"})
"""Endings of the names of files of tasks."""
_ROWS_AT_ONCE = 1000

Task = Mapping[str, Any]
"""A row."""


def read_file(path: Path) -> Any:
    """Return what a file of tasks holds: a list of rows, or what a ``.json`` file has."""
    try:
        if path.suffix == ".csv":
            return _csv(path)
        return _parquet(path) if path.suffix == ".parquet" else _json(path)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"The tasks can't be read from {path}: {error}") from error


def _json(path: Path) -> Any:
    if path.suffix == ".jsonl":
        return [_line(number, line) for number, line in enumerate(read_lines(path), 1) if line.strip()]
    text = read_text(path, MAX_JSON_BYTES)
    check_json_size(text)
    return from_json(text)


def _line(number: int, line: bytes) -> Any:
    try:
        check_json_size(line)
        return from_json(line)
    except ValueError as error:
        raise ValueError(f"expected a task as JSON in line {number}: {error}") from error


def _csv(path: Path) -> list[Task]:
    """Return the rows of a table with a line of headings; each value is a text, an empty one is ``None``."""
    lines = csv.reader(StringIO(read_text(path, MAX_JSON_BYTES), newline=""), strict=True)
    try:
        headings = next(lines, [])
        _check_headings(headings)
        rows: list[Task] = []
        for cells in lines:
            if cells and len(cells) != len(headings):
                raise ValueError(f"expected {len(headings)} values in line {lines.line_num}, got {len(cells)}")
            check_value_count(len(rows) * (len(headings) + 1))
            rows += [dict(zip(headings, map(_cell, headings, cells), strict=True))] if cells else []
    except csv.Error as error:
        raise ValueError(f"{error}, in line {lines.line_num}") from error
    return rows


def _check_headings(headings: list[str]) -> None:
    """Refuse headings of which no column could be found by its name."""
    if len(set(headings)) < len(headings):
        raise ValueError(f"expected each heading once, got {', '.join(headings)}")
    if len(headings) == 1 and re.search("[;\t|]", headings[0]):
        raise ValueError(f"expected commas between headings and between values, got {headings[0]!r:.100}")
    spaced = [heading for heading in headings if heading != heading.strip()]
    if spaced:
        raise ValueError(f"expected commas without spaces around them, got the heading {spaced[0]!r:.100}")


def _cell(heading: str, text: str) -> str | float | None:
    """Return a value of a table: a text, as only the parameters of ``reset`` show which are numbers."""
    try:
        return float(text) if heading == "difficulty" else text or None
    except ValueError:
        return text or None


def _parquet(path: Path) -> list[Task]:
    try:
        from pyarrow import ArrowException, DictionaryArray  # heavy, and only this kind of file needs it
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ConfigurationError(f"Reading {path} needs pyarrow: pip install pyarrow") from error
    rows: list[Task] = []
    size = 0
    try:
        # Unlike a path, which may be that of a pipe. Values that repeat take next to nothing in the file.
        with open_regular(path) as stream, ParquetFile(stream) as file:
            check_value_count(_values_of(file.metadata))
            for batch in file.iter_batches(_rows_at_once(file.metadata)):
                columns = (each.dictionary_decode() if isinstance(each, DictionaryArray) else each for each in batch)
                size += sum(column.nbytes for column in columns)
                if size > MAX_JSON_BYTES:
                    raise ValueError(f"expected tasks of at most {MAX_JSON_BYTES} bytes, but they have more")
                rows += batch.to_pylist()
    except (ArrowException, ArithmeticError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(str(error)) from error
    return rows


def _values_of(metadata: Any) -> int:
    """Return how many values a Parquet file has, a row counted as one of them."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    values = (group.column(number).num_values for group in groups for number in range(group.num_columns))
    return int(metadata.num_rows + sum(values))


def _rows_at_once(metadata: Any) -> int:
    """Return how many rows of a Parquet file may be read at once: each may repeat all that a group of rows has."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    largest = max((group.total_byte_size for group in groups), default=0)
    return int(min(_ROWS_AT_ONCE, max(1, MAX_JSON_BYTES // max(1, largest))))
