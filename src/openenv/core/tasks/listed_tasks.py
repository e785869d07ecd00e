"""Tasks of environments that lack a list of their own: rows of a file, in splits, and what lists show of them."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
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
from openenv.core.exceptions import ConfigurationError, InvalidRequestError, TaskNotFoundError

DEFAULT_SPLIT = "train"
_SPLIT = "split"
_ROWS_AT_ONCE = 1000

Task = Mapping[str, Any]
Splits = Mapping[str, Sequence[Task]]
"""The tasks of each split, in order."""


@dataclass(frozen=True)
class TaskRef:
    """The split of a task, and its index there."""

    split: str
    index: int


class TaskListing(ABC):
    """The methods of ``TaskProvider`` for an environment whose tasks are counted.

    A list shows of a task its split and index alone, which ``reset`` takes: the task itself may hold the solution, and
    the agent may read the list.
    """

    @property
    @abstractmethod
    def task_counts(self) -> Mapping[str, int]:
        """How many tasks each split has; the first split is the default one."""

    def list_splits(self) -> list[str]:
        """Name the splits."""
        return list(self.task_counts)

    def num_tasks(self, split: Any) -> int:
        """Return how many tasks a split has.

        Raises:
            TaskNotFoundError: There is no such split.
        """
        counts = self.task_counts
        if not isinstance(split, str) or split not in counts:
            raise TaskNotFoundError(f"Expected one of the splits {', '.join(counts) or '(none)'}, got {split!r:.100}.")
        return counts[split]

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return what ``reset`` is passed for a task.

        Raises:
            TaskNotFoundError: There is no such task.
        """
        return asdict(self._ref(split, index))

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """Return what ``reset`` is passed for each task."""
        return self.get_task_range(split)

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Return what ``reset`` is passed for the tasks from ``start`` up to ``stop``."""
        return [{"split": split, "index": index} for index in range(self.num_tasks(split))[start:stop]]

    def choose_task(self, split: Any, index: Any, seed: Any) -> TaskRef:
        """Choose the task of an episode by the arguments of ``reset``, which are not validated yet.

        Args:
            split: Its split; by default the first one.
            index: Where it stands in its split.
            seed: Chooses where no index does: the same seed, the same task, and neighbouring seeds neighbouring tasks.
                Without either it is any.

        Raises:
            TaskNotFoundError: There is no such task.
            InvalidRequestError: The seed is no whole number.
        """
        split = next(iter(self.task_counts), DEFAULT_SPLIT) if split is None else split
        if index is None:
            index = index_by_seed(max(1, self.num_tasks(split)), None if seed is None else whole_seed(seed))
        return self._ref(split, index)

    def _ref(self, split: Any, index: Any) -> TaskRef:
        count = self.num_tasks(split)
        if type(index) is not int or not 0 <= index < count:
            expected = f"from 0 to {count - 1}" if count else "of a task, of which there is none,"
            raise TaskNotFoundError(f"Expected an index {expected} in the split {split}, got {index!r:.100}.")
        return TaskRef(split, index)


@cache
def read_tasks(path: Path, check: Callable[[Task], object]) -> Splits:
    """Read a file of tasks; it is read once.

    Args:
        path: A ``.jsonl`` file with a task in each line, a ``.parquet`` file, or a ``.json`` file with a list of tasks
            or with an object that has a list for each split. A task is an object. In a list, a task's ``split`` names
            its split, and is no part of what is returned.
        check: Raises a ``ValueError`` for an object that is no task of this environment.

    Returns:
        The tasks; those without a named split are of the split ``train``. Splits are in the order of their first tasks.

    Raises:
        ConfigurationError: It is not as it must be, or is not there.
    """
    found = _read(path)
    splits = _by_split(path, found) if isinstance(found, list) else _named(found)
    for split, tasks in splits.items():
        _check(f"{path}, {split}", tasks, check)
    return splits


def read_resets(path: Path) -> list[dict[str, Any]]:
    """Read a file in which each task is what ``reset`` is passed, with its ``split`` if it has one.

    Args:
        path: As for ``read_tasks``.

    Returns:
        The tasks in the order of the file.

    Raises:
        ConfigurationError: It is not as it must be, or is not there.
    """
    splits = _named(_read(path))
    for split, tasks in splits.items():
        _check(f"{path}, {split}", tasks, dict)
    return [dict(task) for tasks in splits.values() for task in tasks]


def _read(path: Path) -> Any:
    try:
        return _parquet(path) if path.suffix == ".parquet" else _json(path)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"The tasks can't be read from {path}: {error}") from error


def _named(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {DEFAULT_SPLIT: found}


def _by_split(path: Path, rows: list[Any]) -> dict[str, list[Any]]:
    """Group rows by their column ``split``, which the tasks then lack."""
    splits: dict[str, list[Any]] = {}
    for number, row in enumerate(rows):
        split, task = None, row
        if isinstance(row, dict):
            task = {column: value for column, value in row.items() if column != _SPLIT}
            split = row.get(_SPLIT)
        if not (split is None or isinstance(split, str)):
            raise ConfigurationError(f"{path}[{number}]: expected a name as its split, got {split!r:.100}.")
        splits.setdefault(split or DEFAULT_SPLIT, []).append(task)
    return splits or {DEFAULT_SPLIT: []}


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


def _check(place: str, tasks: Any, check: Callable[[Task], object]) -> None:
    if not isinstance(tasks, list):
        raise ConfigurationError(f"{place}: expected a list of tasks, got {tasks!r:.100}.")
    for index, task in enumerate(tasks):
        try:
            if not isinstance(task, dict):
                raise ValueError("a task is an object")
            check(task)
        except ValueError as error:
            raise ConfigurationError(
                f'{place}[{index}]: expected a task like {{"prompt": "What to do.", ...}}; {error}; got {task!r:.100}.'
            ) from error


def index_by_seed(count: int, seed: int | None) -> int:
    """Return the index of a task: the same seed, the same task, and neighbouring seeds neighbouring tasks.

    Args:
        count: How many tasks there are, at least one.
        seed: The seed; ``None`` for any task.
    """
    return random.randrange(count) if seed is None else seed % count  # noqa: S311  # no secret


def whole_seed(seed: Any) -> int:
    """Return a seed that was not validated yet.

    Raises:
        InvalidRequestError: It is no whole number.
    """
    if type(seed) is not int:
        raise InvalidRequestError(f"Expected the seed to be a whole number, got {seed!r:.100}.")
    return seed


ListsTasks = TaskListing
Place = TaskRef
"""The earlier names."""
