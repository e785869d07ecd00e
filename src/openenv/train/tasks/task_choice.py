"""Which tasks are played: a split of the environment's own, those in a file, or seeds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openenv.core.exceptions import ConfigurationError
from openenv.core.sync_client import SyncEnvClient
from openenv.core.tasks.listed_tasks import read_resets
from openenv.train.tasks.task_rows import task_rows

__all__ = ["NumberedTask", "check_number", "named_tasks"]

NumberedTask = tuple[int, Mapping[str, Any]]
"""A number for an episode, and what its reset is passed."""

Client = SyncEnvClient[Any, Any, Any]
TASK_FILES = frozenset({".json", ".jsonl", ".parquet"})


def check_number(name: str, value: int | None) -> None:
    """Refuse a number below 1.

    Raises:
        ConfigurationError: It is one.
    """
    if value is not None and value < 1:
        raise ConfigurationError(f"Expected {name} to be 1 or more, got {value}.")


def named_tasks(name: str, client: Client, num_tasks: int | None = None) -> list[dict[str, Any]]:
    """Return tasks by the name of their split, or from a file.

    Args:
        name: A split of the environment's tasks; or a file that ends in ``.jsonl``, ``.json`` or ``.parquet``, in which
            each task is an object with what ``reset`` takes.
        client: A client of the environment, connected.
        num_tasks: How many of the first of them; by default all.

    Returns:
        What ``reset`` is passed for each task.

    Raises:
        ConfigurationError: The file can't be read, there are no tasks, or fewer than are wanted.
        OpenEnvError: The environment has no such split, or no tasks.
    """
    path = Path(name)
    tasks = read_resets(path.resolve()) if path.suffix in TASK_FILES else task_rows(client, name)
    if not tasks:
        raise ConfigurationError(f"Expected at least one task in {name}, found none.")
    if num_tasks is not None and num_tasks > len(tasks):
        raise ConfigurationError(f"Expected {num_tasks} tasks in {name}; there are {len(tasks)}.")
    return tasks[:num_tasks]
