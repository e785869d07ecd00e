"""Tasks that a client passes its resets: rows of a dataset, one after the other."""

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from openenv.core.exceptions import ConfigurationError, TaskNotFoundError
from openenv.core.tasks.task_files import Task


class RowCursor:
    """Rows of one split of a dataset, of which each reset is passed the next one; after the last comes the first.

    The sessions of one client share it, so that each gets another row.

    Args:
        reference: Reference of the dataset's environment, with its commit.
        rows: The rows, a ``datasets.Dataset`` or a list.
        arguments: Returns what ``reset`` is passed for the row at an index.

    Attributes:
        reference: The reference.
        rows: The rows.
    """

    def __init__(self, reference: str, rows: Any, arguments: Callable[[int], Mapping[str, Any]]) -> None:
        self.reference = reference
        self.rows = rows
        self._arguments = arguments
        self._next = 0
        self._lock = Lock()

    def choose(self, index: int | None) -> int:
        """Return the index of a row: the one that is given, or the next one.

        Raises:
            TaskNotFoundError: There is no such row.
        """
        with self._lock:
            chosen = self._next if index is None else index
            if type(chosen) is not int or not 0 <= chosen < len(self.rows):
                raise TaskNotFoundError(
                    f"Expected an index from 0 to {len(self.rows) - 1} of {self.reference}, got {index!r:.100}."
                )
            self._next = (chosen + 1) % len(self.rows)
            return chosen

    def row(self, index: int) -> Task:
        """Return a row as the dataset has it."""
        row: Task = self.rows[index]
        return row

    def arguments(self, index: int, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what ``reset`` is passed for a row, with what the caller gave.

        Raises:
            ConfigurationError: The caller gave what the row has.
        """
        arguments = self._arguments(index)
        both = [name for name in given if name in arguments]
        if both:
            raise ConfigurationError(
                f"Expected {' and '.join(both)} of the reset from row {index} of {self.reference}, but the caller gave "
                "it too: leave it out, or choose another row, as in reset(index=3)."
            )
        return {**arguments, **given}
