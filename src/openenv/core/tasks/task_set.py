"""Task sets: the tasks of an environment as rows of files, datasets and lists, or as a function makes them."""

import copy
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

from openenv.core.exceptions import ConfigurationError, InvalidRequestError, TaskNotFoundError
from openenv.core.tasks.listed_tasks import (
    DEFAULT_SPLIT,
    LABELS,
    TaskRef,
    check_split_column,
    default_first,
    rows_by_split,
)
from openenv.core.tasks.sources import TaskSource
from openenv.core.tasks.task_files import TASK_FILES, Task, read_file
from openenv.core.tasks.task_keys import content_key

if TYPE_CHECKING:
    from datasets import Dataset  # type: ignore[import-untyped]

MAX_STREAM_ROWS = 100_000
"""Tasks of a function that are made and kept; those after them are not reached."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
RESET_COLUMN = "openenv_reset"
"""Column of an object that ``reset`` is passed instead of the row."""

_TASK = "task"


class RowStream:
    """Rows that are made one after the other, each once.

    Args:
        rows: What makes them; it may have no end.
    """

    def __init__(self, rows: Iterable[Any]) -> None:
        self._rows = iter(rows)
        self._made: list[Any] = []
        # True while a row is made, and so after the maker has failed.
        self._is_broken = False
        self._lock = Lock()

    def __getitem__(self, index: int) -> Any:
        """Return a row; all those before it are made too. Raises ``IndexError`` if there are not that many."""
        if index >= MAX_STREAM_ROWS:
            raise IndexError(index)
        with self._lock:
            if self._is_broken:
                raise ConfigurationError(
                    f"The task {len(self._made)} could not be made before, nor can those after it."
                )
            while len(self._made) <= index:
                self._is_broken = True
                row = next(self._rows, self)
                self._is_broken = False
                if row is self:
                    raise IndexError(index)
                self._made.append(row)
            return self._made[index]


Rows = Sequence[Task] | RowStream
"""The rows of one split."""


class TaskSet(TaskSource):
    """Tasks of an environment, in splits.

    As the attribute ``tasks`` of an environment's class it serves the lists of tasks, and a reset by ``split`` and
    ``index``, or by a ``seed``, passes the columns of a task to the parameters of ``reset`` that have their names.
    Lists show the split and the index of a task, and its ``id``, ``difficulty`` and ``group`` if it has them: nothing
    else, as the agent may read them.

    What is passed to ``reset`` is the object in the column ``openenv_reset`` if a row has one, else the object in the
    column ``task``, else the whole row; with the columns ``id``, ``difficulty`` (a number, or a text) and ``group`` (a
    text), and the ``split`` and ``index`` of the task. An empty cell leaves a parameter its default.

    A task has a key, which stays the same when others are added: its ``id``, else a digest of its content. No two tasks
    have the same key, so that no task of one split is in another. Rows of a ``datasets.Dataset`` are not read for that,
    but for their column ``id``; nor are those of a function before they are needed.

    Args:
        source: One of these; a mapping has one of them for each split, and is needed for several splits of a function.

            - A ``.parquet``, ``.jsonl``, ``.json`` or ``.csv`` file. A relative path is one beside the module of the
              class that has the task set as its attribute, else one in the working directory.
            - A folder of such files, as ``datasets.load_dataset`` reads it.
            - The name of a dataset on the Hub, with its ``revision``.
            - A list of rows, a ``datasets.Dataset``, or something else to iterate over, which may have no end.
            - A function that returns one of these, or is a generator; it is called on the first use.
        check: Raises a ``ValueError`` for a row that is no task of this environment.
        columns: Other names for columns, as in ``{"question": "prompt"}``: the column ``prompt`` is then ``question``.
        limit: Number of tasks of each split that are used, from its first; a function's tasks are counted by it.
        revision: Commit of a dataset on the Hub, with all of its 40 hexadecimal digits: its tasks stay the same.
        config: Configuration of a dataset that has several.

    Raises:
        ConfigurationError: The limit is below 1, or the revision is no commit. Faults of the source are raised on the
            first use, which is the start of the server.

    Example:
        >>> tasks = TaskSet([{"country": "Kenya", "capital": "Nairobi", "split": "test", "difficulty": 0.5}])
        >>> tasks.list_tasks("test")
        [{'split': 'test', 'index': 0, 'difficulty': 0.5}]
        >>> tasks.arguments(TaskRef("test", 0))["capital"]
        'Nairobi'
    """

    LISTED: ClassVar[tuple[str, ...]] = LABELS
    """Columns that lists show."""

    def __init__(
        self,
        source: Any,
        check: Callable[[Task], object] = dict,
        *,
        columns: Mapping[str, str] | None = None,
        limit: int | None = None,
        revision: str | None = None,
        config: str | None = None,
    ) -> None:
        if limit is not None and limit < 1:
            raise ConfigurationError(f"Expected the limit of a TaskSet to be 1 or more, got {limit}.")
        if revision is not None and not _COMMIT.fullmatch(revision):
            raise ConfigurationError(
                "Expected the revision of a dataset as a commit with 40 hexadecimal digits, which its page on the Hub "
                f"has under 'History'; got {revision!r}, which may have other tasks tomorrow."
            )
        self._source = source
        self._columns = dict(columns or {})
        self._check = check
        self._limit = limit
        self._revision, self._config = revision, config
        self._lock = Lock()
        # Set on the first use.
        self._splits: dict[str, Rows] | None = None
        # What lists read, where that is not the whole row.
        self._shown: dict[str, Rows] = {}
        # Set by the class that has this as its attribute.
        self._folder: Path | None = None
        self._name = f"TaskSet({str(source)!r})" if isinstance(source, str | Path) else "TaskSet"

    def __set_name__(self, owner: type, name: str) -> None:
        """Read relative paths beside the module of the first class that has this as its attribute."""
        if self._folder is None:
            file = getattr(sys.modules.get(owner.__module__), "__file__", None)
            self._folder = Path(file).resolve().parent if file else None
            self._name = f"{owner.__name__}.{name}"

    def __repr__(self) -> str:
        """Return the name by which messages call it."""
        return self._name

    def read(self) -> None:
        """Read the source now, and not on the first use.

        Raises:
            ConfigurationError: It is not there, or not as it must be.
        """
        with self._lock:
            if self._splits is None:
                self._splits = self._read()

    @property
    def splits(self) -> Mapping[str, Rows]:
        """The rows of each split, which are read on the first use.

        Raises:
            ConfigurationError: The source is not there, or not as it must be.
        """
        if self._splits is None:
            self.read()
        return self._splits or {}

    @property
    def task_counts(self) -> Mapping[str, int | None]:
        """Number of tasks of each split; ``None`` for those that are made one after the other, without a limit."""
        return {split: len(rows) if isinstance(rows, Sized) else None for split, rows in self.splits.items()}

    def row(self, ref: TaskRef, **choices: object) -> Task:
        """Return a task as the source has it, without its split.

        Args:
            ref: Its split and index.
            **choices: What a reset chose of generated tasks, such as ``difficulty``; all of it has to be ``None``.

        Raises:
            InvalidRequestError: A choice is not ``None``.
            TaskNotFoundError: A function makes fewer tasks.
            ConfigurationError: A function made what is no task.
        """
        if any(value is not None for value in choices.values()):
            raise InvalidRequestError(
                f"The tasks come from a file: choose one by split and index, not by {' or '.join(choices)}."
            )
        rows = self.splits[ref.split]
        row = self._row(rows, ref)
        if is_dataset(rows):
            self._check_row(f"{self}, {ref.split}[{ref.index}]", row)
        return row

    def key(self, split: str, index: int) -> str:
        """Return the key of a task: its ``id``, else a digest of its content.

        A digest is in no list: with it an agent could try answers until one has it.

        Raises:
            TaskNotFoundError: There is no such task.
        """
        return _key(self.row(self._ref(split, index)))

    def arguments(self, ref: TaskRef) -> dict[str, Any]:
        """Return what the columns of a task are for ``reset``, as the class describes; a copy of them.

        Raises:
            TaskNotFoundError: A function makes fewer tasks.
            ConfigurationError: The column ``openenv_reset`` has no object.
        """
        shown = _shown(self.row(ref))
        return copy.deepcopy({**shown, **self.fields(ref), "split": ref.split, "index": ref.index})

    def fields(self, ref: TaskRef) -> Task:
        """Return the part of a task that is for ``reset``: an object in one of its columns, or the whole row.

        Raises:
            TaskNotFoundError: A function makes fewer tasks.
            ConfigurationError: The column ``openenv_reset`` has no object.
        """
        row = self.row(ref)
        fields = row.get(RESET_COLUMN)
        if fields is None:
            fields = row[_TASK] if isinstance(row.get(_TASK), Mapping) else row
        if not isinstance(fields, Mapping):
            raise ConfigurationError(
                f"{self}, {ref.split}[{ref.index}]: expected an object in the column {RESET_COLUMN}, "
                f"got {type(fields).__name__}."
            )
        return fields

    def _listed(self, ref: TaskRef) -> dict[str, Any]:
        rows = self.splits[ref.split]
        return {**super()._listed(ref), **_shown(self._row(self._shown.get(ref.split, rows), ref))}

    def _row(self, rows: Rows, ref: TaskRef) -> Task:
        try:
            return rows[ref.index]
        except IndexError as error:
            raise TaskNotFoundError(
                f"Expected an index of a task in the split {ref.split}, got {ref.index}, which is after its end."
            ) from error

    def _read(self) -> dict[str, Rows]:
        source = self._opened(self._source)
        if not isinstance(source, Mapping):
            splits = _split_rows(str(self), self._rows(str(self), source))
        else:
            splits = {str(split): self._rows(f"{self}, {split}", self._opened(each)) for split, each in source.items()}
        splits = default_first(splits)
        if self._limit is not None:
            splits = {split: _first(rows, self._limit) for split, rows in splits.items()}
        self._shown = {split: _narrowed(rows) for split, rows in splits.items() if is_dataset(rows)}
        for split, rows in splits.items():
            for index, row in enumerate(rows if isinstance(rows, list) else ()):
                self._check_row(f"{self}, {split}[{index}]", row)
        self._check_keys(splits)
        return splits

    def _opened(self, source: Any) -> Any:
        """Return what a function returns, or what is at a path or on the Hub."""
        if callable(source):
            source = source()
        if not isinstance(source, str | Path):
            return source
        if self._revision is not None:
            return _dataset(str(source), self._config, self._revision)
        path = (self._folder or Path.cwd()) / source
        if path.suffix in TASK_FILES:
            return read_file(path)
        if path.is_dir():
            return _dataset(str(path), self._config)
        raise ConfigurationError(
            f"{self}: expected a file ({', '.join(sorted(TASK_FILES))}), a folder of them, or a dataset of the Hub "
            f"with revision=; there is no folder {path}."
        )

    def _rows(self, origin: str, source: Any) -> Rows:
        """Return rows under their new names; only those of a list are read."""
        if is_dataset(source):
            missing = [column for column in self._columns.values() if column not in source.column_names]
            if missing:
                raise ConfigurationError(f"{origin}: {_missing_text(missing, source.column_names)}.")
            renamed: Rows = source.rename_columns({column: name for name, column in self._columns.items()})
            return renamed
        if isinstance(source, list | tuple):
            return [self._renamed(f"{origin}[{index}]", row) for index, row in enumerate(source)]
        if isinstance(source, Iterable) and not isinstance(source, str | bytes | Mapping):
            return RowStream(self._made(origin, source))
        raise ConfigurationError(f"{origin}: expected a list of tasks, got {source!r:.100}.")

    def _made(self, origin: str, source: Iterable[Any]) -> Iterator[Task]:
        """Iterate over the rows of a stream, each checked when it is made."""
        for index, row in enumerate(source):
            task = self._renamed(f"{origin}[{index}]", row)
            self._check_row(f"{origin}[{index}]", task)
            if task.get("split") is not None:
                raise ConfigurationError(
                    f"{origin}[{index}]: expected no column 'split' in rows that are made one after the other: pass "
                    "TaskSet a mapping with a function for each split."
                )
            yield task

    def _renamed(self, origin: str, row: Any) -> Any:
        if not self._columns or not isinstance(row, Mapping):
            return row
        missing = [column for column in self._columns.values() if column not in row]
        if missing:
            raise ConfigurationError(f"{origin}: {_missing_text(missing, row)}.")
        rest = {name: value for name, value in row.items() if name not in self._columns.values()}
        return {**rest, **{name: row[column] for name, column in self._columns.items()}}

    def _check_row(self, origin: str, row: Any) -> None:
        """Refuse a row that is no task. The message does not have what it holds: an agent may see the message."""
        try:
            if not isinstance(row, Mapping):
                raise ValueError("a task is an object")
            self._check(row)
            _check_listed(row)
        except ValueError as error:
            raise ConfigurationError(f"{origin}: expected a task; {error}.") from error

    def _check_keys(self, splits: Mapping[str, Rows]) -> None:
        """Refuse two tasks with one key among those that are read."""
        first: dict[str, str] = {}
        for split, rows in splits.items():
            shown: Any = rows if isinstance(rows, list) else self._shown.get(split, ())
            for index, row in enumerate(shown):
                if not isinstance(rows, list) and row.get("id") is None:
                    continue
                ref = f"{split}[{index}]"
                if (other := first.setdefault(_key(row), ref)) != ref:
                    both = "content, and no id" if row.get("id") is None else f"id {row['id']!r:.100}"
                    raise ConfigurationError(
                        f"{self}: expected each task once, but {other} and {ref} have the same {both}."
                    )


def is_dataset(rows: Any) -> bool:
    """Return whether rows are a ``datasets.Dataset``, without importing its library."""
    datasets = sys.modules.get("datasets")  # a dataset is there only where its library was imported
    return datasets is not None and isinstance(rows, datasets.Dataset)


def task_set_of(environment: Any) -> TaskSet | None:
    """Return the task set of an environment's class; ``None`` if it has none, or is not known."""
    tasks = getattr(environment, "tasks", None)
    return tasks if isinstance(tasks, TaskSet) else None


def _dataset(name: str, config: str | None, revision: str | None = None) -> Any:
    try:
        from datasets import load_dataset  # heavy, and only these need it
        from datasets.exceptions import DatasetsError  # type: ignore[import-untyped]
    except ImportError as error:
        raise ConfigurationError(f"Reading the dataset {name} needs datasets: pip install datasets") from error
    try:
        return load_dataset(name, config, revision=revision)
    except (OSError, ValueError, DatasetsError) as error:
        at = "" if revision is None else f", revision {revision}"
        cause = "" if error.__cause__ is None else f": {error.__cause__!s:.500}"
        raise ConfigurationError(f"The tasks can't be read from the dataset {name}{at}: {error}{cause}") from error


def _split_rows(origin: str, rows: Rows) -> dict[str, Rows]:
    """Group rows by their column ``split``; a stream has one split."""
    if isinstance(rows, list):
        return {**rows_by_split(origin, rows)}
    dataset: Dataset | None = rows if is_dataset(rows) else None
    if dataset is not None:
        check_split_column(origin, dataset.column_names)
    if dataset is None or "split" not in dataset.column_names:
        return {DEFAULT_SPLIT: rows}
    numbers: dict[str, list[int]] = {}
    for number, row in enumerate(dataset.select_columns(["split"])):
        numbers.setdefault(row["split"] or DEFAULT_SPLIT, []).append(number)
    return {str(split): dataset.select(chosen).remove_columns("split") for split, chosen in numbers.items()}


def _first(rows: Any, limit: int) -> Rows:
    """Return the first rows; of a stream they are made now, as they are to be counted."""
    if isinstance(rows, RowStream):
        return list(islice(iter(rows), limit))
    limited: Rows = rows.select(range(min(limit, len(rows)))) if is_dataset(rows) else rows[:limit]
    return limited


def _narrowed(dataset: Any) -> Rows:
    """Return a dataset with the columns that lists show, so that to list tasks decodes no picture."""
    columns = [name for name in dataset.column_names if name in TaskSet.LISTED]
    return dataset.select_columns(columns) if columns else [{}] * len(dataset)


def _shown(row: Task) -> dict[str, Any]:
    return {name: row[name] for name in TaskSet.LISTED if row.get(name) is not None}


def _key(row: Task) -> str:
    try:
        return content_key(row) if row.get("id") is None else f"id {row['id']}"
    except ValueError as error:
        raise ConfigurationError(f"Expected a column 'id' in tasks without a key: {error}.") from error


def _check_listed(row: Task) -> None:
    """Raise a ``ValueError`` for a value that lists can't show."""
    name, group, difficulty = (row.get(column) for column in ("id", "group", "difficulty"))
    if not isinstance(name, str | int | None) or isinstance(name, bool):
        raise ValueError("'id' is a text or a whole number")
    if not isinstance(group, str | None):
        raise ValueError("'group' is a text")
    is_number = isinstance(difficulty, int | float) and not isinstance(difficulty, bool) and isfinite(difficulty)
    if not isinstance(difficulty, str | None) and not is_number:
        raise ValueError("'difficulty' is a number, or a text")


def _missing_text(missing: Sequence[str], known: Iterable[str]) -> str:
    return f"expected the column {' and '.join(missing)}; there are {', '.join(known) or 'none'}"


TaskFile = TaskSet
"""The earlier name."""
