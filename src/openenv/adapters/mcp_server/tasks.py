"""The tasks of an environment, as a file lists them."""

import copy
import random
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json

from openenv.core.exceptions import ConfigurationError, TaskNotFoundError

DEFAULT_SPLIT = "train"

Task = Mapping[str, Any]


class Tasks:
    """Tasks, in splits.

    Args:
        splits: The tasks of each split, in order.
    """

    def __init__(self, splits: Mapping[str, Sequence[Task]]) -> None:
        self._splits = {name: list(tasks) for name, tasks in splits.items()}

    @property
    def splits(self) -> list[str]:
        """Their names."""
        return list(self._splits)

    def of(self, split: str) -> list[Task]:
        """Return the tasks of a split.

        Raises:
            TaskNotFoundError: There is no such split.
        """
        if split not in self._splits:
            raise TaskNotFoundError(f"Expected one of the splits {', '.join(self._splits) or '(none)'}, got {split!r}.")
        return self._splits[split]

    def at(self, split: str, index: int) -> Task:
        """Return one task.

        Raises:
            TaskNotFoundError: There is none.
        """
        tasks = self.of(split)
        if not 0 <= index < len(tasks):
            raise TaskNotFoundError(f"Expected an index from 0 to {len(tasks) - 1} in {split!r}, got {index}.")
        return tasks[index]

    def choose(self, split: str | None, index: int | None, seed: int | None) -> Task | None:
        """Choose the task of an episode, and copy it; ``None`` where there are no tasks, and none is asked for.

        Args:
            split: Its split; by default the first one.
            index: Where it stands in its split.
            seed: Chooses where no index does: the same seed, the same task, and neighbouring seeds neighbouring tasks.
                Without either it is any.

        Raises:
            TaskNotFoundError: There is no such task.
        """
        if not self._splits and split is None and index is None:
            return None
        split = next(iter(self._splits), DEFAULT_SPLIT) if split is None else split
        if index is None:
            count = max(1, len(self.of(split)))
            index = random.randrange(count) if seed is None else seed % count  # noqa: S311  # nothing to be guarded
        return copy.deepcopy(self.at(split, index))


class _Row(NamedTuple):
    """A task, and where it stands, for messages."""

    place: str
    task: Any


@cache
def read_tasks(path: Path) -> Tasks:
    """Read a file of tasks; it is read once.

    Args:
        path: A ``.jsonl`` file with a task in each line, or a ``.json`` file with a list of tasks, or with an object
            that has a list for each split. A task is an object; its ``prompt``, if any, is a text.

    Raises:
        ConfigurationError: It is not as it must be, or is not there.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"The tasks can't be read from {path}: {error}") from error
    if path.suffix == ".jsonl":
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        return _checked({DEFAULT_SPLIT: [_Row(f"{path}:{number}", _json(line, path)) for number, line in lines]})
    document = _json(text, path)
    splits = document if isinstance(document, dict) else {DEFAULT_SPLIT: document}
    return _checked({name: _rows(name, tasks, path) for name, tasks in splits.items()})


def _json(text: str, path: Path) -> Any:
    try:
        return from_json(text)
    except ValueError as error:
        raise ConfigurationError(
            f"Expected JSON in {path}, with a task in each line of a .jsonl file: {error}"
        ) from error


def _rows(split: str, tasks: Any, path: Path) -> list[_Row]:
    if not isinstance(tasks, list):
        raise ConfigurationError(
            f"Expected {path} to hold a list of tasks, or a list for each split; {split!r} is {tasks!r:.100}."
        )
    return [_Row(f"{path}, {split}[{index}]", task) for index, task in enumerate(tasks)]


def _checked(splits: Mapping[str, Sequence[_Row]]) -> Tasks:
    for row in (row for rows in splits.values() for row in rows):
        if not isinstance(row.task, dict) or not isinstance(row.task.get("prompt", ""), str):
            raise ConfigurationError(
                f'{row.place}: expected a task like {{"prompt": "What to do.", ...}}, got {row.task!r:.100}.'
            )
    return Tasks({name: [row.task for row in rows] for name, rows in splits.items()})
