"""The tasks to play: for each of them, what ``reset`` is passed."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from openenv.core.client.blocking import wait_for
from openenv.core.env_client import EnvClient
from openenv.core.exceptions import ConfigurationError
from openenv.core.sync_client import SyncEnvClient
from openenv.train.tasks.seeds import training_seeds

if TYPE_CHECKING:
    from datasets import Dataset  # type: ignore[import-untyped]

__all__ = ["DEFAULT_NUM_TASKS", "TASK_LABELS", "task_rows"]

DEFAULT_NUM_TASKS = 1000
"""Number of seeds to play by default."""


TASK_LABELS = frozenset({"id", "difficulty", "group"})
"""Fields that describe a task, as for a sampler; a reset without a parameter of the name is not passed them."""


def task_rows(
    client: EnvClient[Any, Any, Any] | SyncEnvClient[Any, Any, Any] | None,
    tasks: "int | str | Iterable[Mapping[str, Any]] | Dataset | None" = None,
    *,
    num_tasks: int | None = None,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """List what ``reset`` is passed for each task: of seeds, a split that the server lists, a list or a dataset.

    Example:
        >>> task_rows(None, [{"difficulty": "hard"}, {"difficulty": "easy"}], num_tasks=1)
        [{'difficulty': 'hard'}]
        >>> task_rows(None, 2) == task_rows(None, num_tasks=2)
        True
    """
    if num_tasks is not None and num_tasks < 1:
        raise ConfigurationError(f"Expected num_tasks to be 1 or more, got {num_tasks}.")
    if tasks is None or isinstance(tasks, int):
        given = tasks if num_tasks is None else num_tasks
        return _seeds(seed, DEFAULT_NUM_TASKS if given is None else given)
    rows = _listed(client, tasks) if isinstance(tasks, str) else [_row(task) for task in tasks]
    if not rows:
        raise ConfigurationError(f"Expected tasks to play, got none: {tasks!r:.100}.")
    return rows[:num_tasks]


def _seeds(seed: int, count: int) -> list[dict[str, Any]]:
    if isinstance(count, bool) or count < 1:
        raise ConfigurationError(f"Expected at least one task, got tasks={count!r}.")
    return [{"seed": each} for each in training_seeds(seed, count)]


def _listed(client: EnvClient[Any, Any, Any] | SyncEnvClient[Any, Any, Any] | None, split: str) -> list[dict[str, Any]]:
    if client is None:
        raise ConfigurationError(f"Expected a client of the server that lists the tasks of the split {split!r}.")
    plain = client.async_client if isinstance(client, SyncEnvClient) else client
    rows: list[dict[str, Any]] = wait_for(plain.tasks, split)
    return rows


def _row(task: Any) -> dict[str, Any]:
    if not isinstance(task, Mapping):
        raise ConfigurationError(
            f"Expected each task as a mapping of what reset takes, such as {{'seed': 7}}; got {task!r:.100}."
        )
    return dict(task)
