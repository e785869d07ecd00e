"""Sources of an environment's tasks: made by chance, or read from a file."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Self

from openenv.core.exceptions import InvalidRequestError
from openenv.core.tasks.listed_tasks import Splits, Task, TaskListing, TaskRef, read_tasks


class TaskSource(TaskListing):
    """Tasks in splits. They never change, so that copies of an environment share them."""

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


class GeneratedTasks(TaskSource):
    """Tasks made by chance, the same ones for the same split and index; a subclass makes them.

    Attributes:
        SPLITS: Names of the splits, the default one first.
        TASKS_PER_SPLIT: Number of tasks in each.
    """

    SPLITS: ClassVar[tuple[str, ...]] = ("train", "validation", "test")
    TASKS_PER_SPLIT: ClassVar[int] = 10_000

    @property
    def task_counts(self) -> Mapping[str, int]:
        """How many tasks each split has."""
        return dict.fromkeys(self.SPLITS, self.TASKS_PER_SPLIT)


class TaskFile(TaskSource):
    """Tasks of a file; a subclass makes of a row what its environment plays.

    Args:
        path: A ``.jsonl`` file with a task in each line, a ``.parquet`` file, or a ``.json`` file with a list of tasks
            or with an object that has a list for each split.
        check: Raises a ``ValueError`` for an object that is no task of the environment; see ``read_tasks``.

    Attributes:
        folder: Folder of the file.
        splits: The tasks of each split, in order.

    Raises:
        ConfigurationError: The file is not like that.
    """

    def __init__(self, path: Path, check: Callable[[Task], object]) -> None:
        path = path.resolve()
        self.folder = path.parent
        self.splits: Splits = read_tasks(path, check)

    @property
    def task_counts(self) -> Mapping[str, int]:
        """How many tasks each split has."""
        return {split: len(tasks) for split, tasks in self.splits.items()}

    def row(self, ref: TaskRef, **choices: object) -> Task:
        """Return a task as the file has it.

        Args:
            ref: Its split and index.
            **choices: What a reset chose of generated tasks, such as ``difficulty``; all of it has to be ``None``.

        Raises:
            InvalidRequestError: A choice is not ``None``.
        """
        if any(value is not None for value in choices.values()):
            raise InvalidRequestError(
                f"The tasks come from a file: choose one by split and index, not by {' or '.join(choices)}."
            )
        return self.splits[ref.split][ref.index]
