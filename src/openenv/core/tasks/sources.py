"""Sources of an environment's tasks, of which those that are made by chance."""

from collections.abc import Mapping
from typing import ClassVar, Self

from openenv.core.tasks.listed_tasks import TaskListing


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
