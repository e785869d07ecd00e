"""Tasks of environments that lack a list of their own: rows of a file, in splits, and what lists show of them."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from openenv.core.exceptions import ConfigurationError, InvalidRequestError, TaskNotFoundError
from openenv.core.tasks.task_files import Task, read_file

DEFAULT_SPLIT = "train"
LABELS = ("id", "difficulty", "group")
"""Columns of a task that describe it: lists show them, samplers and results go by them."""
UNCOUNTED_SEEDS = 1000
"""Tasks among which a seed chooses where they are not counted."""
_SPLIT = "split"

RowsT = TypeVar("RowsT")
Splits = Mapping[str, Sequence[Task]]
"""The tasks of each split, in order."""


@dataclass(frozen=True)
class TaskRef:
    """The split of a task, and its index there."""

    split: str
    index: int


class TaskListing(ABC):
    """The methods of ``TaskProvider`` for an environment whose tasks have an index in their split.

    A list shows of a task its split and index alone, which ``reset`` takes: the task itself may hold the solution, and
    the agent may read the list.
    """

    @property
    @abstractmethod
    def task_counts(self) -> Mapping[str, int | None]:
        """Number of tasks of each split, ``None`` if they are not counted; the first split is the default one."""

    def list_splits(self) -> list[str]:
        """Name the splits."""
        return list(self.task_counts)

    def num_tasks(self, split: Any) -> int:
        """Return the number of tasks of a split.

        Raises:
            TaskNotFoundError: There is no such split.
            NotImplementedError: Its tasks are not counted.
        """
        count = self._count(split)
        if count is None:
            raise NotImplementedError(f"The tasks of the split {split} are made one after the other, and not counted.")
        return count

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return what ``reset`` is passed for a task.

        Raises:
            TaskNotFoundError: There is no such task.
        """
        return self._listed(self._ref(split, index))

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """Return what ``reset`` is passed for each task."""
        return self.get_task_range(split)

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Return what ``reset`` is passed for the tasks from ``start`` up to ``stop``."""
        count = self._count(split)
        if count is None and stop is not None and stop >= 0 and (start or 0) >= 0:
            count = stop
        tasks = []
        for index in range(self.num_tasks(split) if count is None else count)[start:stop]:
            try:
                tasks.append(self._listed(TaskRef(split, index)))
            except TaskNotFoundError:  # the end of those that are not counted
                break
        return tasks

    def choose_task(self, split: Any, index: Any, seed: Any) -> TaskRef:
        """Choose the task of an episode by the arguments of ``reset``, which are not validated yet.

        Args:
            split: Its split; by default the first one.
            index: Where it stands in its split.
            seed: Chooses where no index does: the same seed, the same task, and neighbouring seeds neighbouring tasks.
                Without either it is any. Where tasks are not counted, it is one of the first 1000.

        Raises:
            TaskNotFoundError: There is no such task.
            InvalidRequestError: The seed is no whole number.
        """
        split = next(iter(self.task_counts), DEFAULT_SPLIT) if split is None else split
        if index is None:
            count = self._count(split)
            among = UNCOUNTED_SEEDS if count is None else max(1, count)
            index = index_by_seed(among, None if seed is None else whole_seed(seed))
        return self._ref(split, index)

    def _listed(self, ref: TaskRef) -> dict[str, Any]:
        """Return what a list shows of a task that is there."""
        return {"split": ref.split, "index": ref.index}

    def _count(self, split: Any) -> int | None:
        counts = self.task_counts
        if not isinstance(split, str) or split not in counts:
            raise TaskNotFoundError(f"Expected one of the splits {', '.join(counts) or '(none)'}, got {split!r:.100}.")
        return counts[split]

    def _ref(self, split: Any, index: Any) -> TaskRef:
        count = self._count(split)
        if type(index) is not int or index < 0 or (count is not None and index >= count):
            last = "" if count is None else f" to {count - 1}"
            expected = f"from 0{last}" if count != 0 else "of a task, of which there is none,"
            raise TaskNotFoundError(f"Expected an index {expected} in the split {split}, got {index!r:.100}.")
        return TaskRef(split, index)


@cache
def read_tasks(path: Path, check: Callable[[Task], object]) -> Splits:
    """Read a file of tasks; it is read once. ``TaskSet`` reads more than files, and serves what it reads.

    Args:
        path: A ``.jsonl`` file with a task in each line, a ``.parquet`` or ``.csv`` file, or a ``.json`` file with a
            list of tasks or with an object that has a list for each split. A task is an object. In a list, a task's
            ``split`` names its split, and is no part of what is returned.
        check: Raises a ``ValueError`` for an object that is no task of this environment.

    Returns:
        The tasks; those without a named split are of the split ``train``, which is the first one; the others are in the
        order of their first tasks.

    Raises:
        ConfigurationError: It is not as it must be, or is not there.
    """
    found = read_file(path)
    splits = rows_by_split(str(path), found) if isinstance(found, list) else _named(found)
    for split, tasks in splits.items():
        check_tasks(f"{path}, {split}", tasks, check)
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
    splits = _named(read_file(path))
    for split, tasks in splits.items():
        check_tasks(f"{path}, {split}", tasks, dict)
    return [dict(task) for tasks in splits.values() for task in tasks]


def _named(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {DEFAULT_SPLIT: found}


def rows_by_split(origin: str, rows: Sequence[Any]) -> dict[str, list[Any]]:
    """Group rows by their column ``split``, which the tasks then lack."""
    splits: dict[str, list[Any]] = {}
    for number, row in enumerate(rows):
        split, task = None, row
        if isinstance(row, dict):
            check_split_column(f"{origin}[{number}]", row)
            task = {column: value for column, value in row.items() if column != _SPLIT}
            split = row.get(_SPLIT)
        if not (split is None or (isinstance(split, str) and split == split.strip())):
            spaced = " with spaces around it" if isinstance(split, str) else ""
            raise ConfigurationError(f"{origin}[{number}]: expected a name as its split, got {split!r:.100}{spaced}.")
        splits.setdefault(split or DEFAULT_SPLIT, []).append(task)
    return default_first(splits) if splits else {DEFAULT_SPLIT: []}


def check_split_column(origin: str, columns: Collection[Any]) -> None:
    """Refuse another spelling of the column that names the split: all rows would be of one split without a word."""
    if _SPLIT in columns:
        return
    found = [column for column in columns if isinstance(column, str) and column.strip().lower() == _SPLIT]
    if found:
        raise ConfigurationError(f"{origin}: expected the column {_SPLIT}, got {found[0]!r}; rename it.")


def default_first(splits: Mapping[str, RowsT]) -> dict[str, RowsT]:
    """Return splits in their order, but with the one to learn from first, which seeds choose from by default.

    Example:
        >>> list(default_first({"test": 1, "train": 2, "dev": 3}))
        ['train', 'test', 'dev']
    """
    return {name: splits[name] for name in sorted(splits, key=lambda name: name != DEFAULT_SPLIT)}


def check_tasks(origin: str, tasks: Any, check: Callable[[Task], object]) -> None:
    """Refuse what is no list of tasks; the message begins with the origin of the tasks."""
    if not isinstance(tasks, list):
        raise ConfigurationError(f"{origin}: expected a list of tasks, got {tasks!r:.100}.")
    for index, task in enumerate(tasks):
        try:
            if not isinstance(task, dict):
                raise ValueError("a task is an object")
            check(task)
        except ValueError as error:
            raise ConfigurationError(
                f'{origin}[{index}]: expected a task like {{"prompt": "What to do.", ...}}; {error}; got {task!r:.100}.'
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
