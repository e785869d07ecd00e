"""Sources of an environment's tasks, of which those that are made by chance."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Self, TypeVar

from openenv.core.exceptions import TaskNotFoundError
from openenv.core.tasks.listed_tasks import TaskListing, TaskRef

SPLITS = ("train", "validation", "test")
MOST_DRAWS = 1000
"""Draws after which a task of a split is given up."""

_SHARES_OF_FIRST = 3
DrawnT = TypeVar("DrawnT")


def split_of(key: str, splits: Sequence[str] = SPLITS) -> str:
    """Return the split that a task is of, by a digest of its key: the one rule by which splits share no task.

    Args:
        key: What makes it another task than others, such as the question.
        splits: Names of the splits: three parts of the tasks are of the first one, and one part of each other.

    Example:
        >>> [split_of(f"{number} + 1 =") for number in (1, 2, 7)]
        ['validation', 'train', 'test']
    """
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    part = int.from_bytes(digest) % (_SHARES_OF_FIRST + len(splits) - 1)
    return splits[max(0, part - _SHARES_OF_FIRST + 1)]


class TaskSource(TaskListing):
    """Tasks in splits. They never change, so that copies of an environment share them."""

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


class GeneratedTasks(TaskSource):
    """Tasks made by chance, the same ones for the same split and index; a subclass makes them by ``draw``.

    No two splits have a task with the same key.

    Attributes:
        SPLITS: Names of the splits, the default one first.
        TASKS_PER_SPLIT: Number of tasks in each.
    """

    SPLITS: ClassVar[tuple[str, ...]] = SPLITS
    TASKS_PER_SPLIT: ClassVar[int] = 10_000

    @property
    def task_counts(self) -> Mapping[str, int]:
        """How many tasks each split has."""
        return dict.fromkeys(self.SPLITS, self.TASKS_PER_SPLIT)

    def draw(self, ref: TaskRef, make: Callable[[], tuple[str, DrawnT]]) -> DrawnT:
        """Draw until a task is of the split of a reference, by ``split_of``.

        Args:
            ref: The split, and the index there.
            make: Draws a task, or what it is made of, and returns it after its key.

        Raises:
            TaskNotFoundError: All that can be drawn is of other splits.
        """
        others: set[str] = set()
        for _ in range(MOST_DRAWS):
            key, drawn = make()
            if split_of(key, self.SPLITS) == ref.split:
                return drawn
            others.add(key)
        raise TaskNotFoundError(
            f"Expected a task of the split {ref.split} within {MOST_DRAWS} draws, got those of other splits only, "
            f"{len(others)} different ones: what was chosen leaves this split none, or next to none. Choose less, or "
            "another split."
        )
