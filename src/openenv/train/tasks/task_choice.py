"""Tasks of trainings, evaluations and collections: a split of the environment's, a file, a dataset, or seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Protocol

from openenv.auto.dataset.opening import open_dataset
from openenv.auto.dataset.reference import DATASET_FILE, is_dataset, split_of_tasks
from openenv.core.exceptions import ConfigurationError
from openenv.core.sync_client import SyncEnvClient
from openenv.core.tasks.listed_tasks import read_resets
from openenv.core.tasks.task_files import TASK_FILES
from openenv.core.tasks.task_keys import content_key
from openenv.train.tasks.seeds import derived_seed, evaluation_seeds, training_seeds
from openenv.train.tasks.task_rows import task_rows

__all__ = ["NumberedTask", "check_number", "evaluation_tasks", "listed_tasks", "named_tasks", "training_tasks"]

Task = dict[str, Any]

NumberedTask = tuple[int, Mapping[str, Any]]
"""A number for an episode, and what its reset is passed."""

Client = SyncEnvClient[Any, Any, Any]
DEFAULT_EVALUATION_SEEDS = 100


class _TaskLists(Protocol):
    """Source of an environment's named tasks; ``openenv.train.Sessions`` are one."""

    def named_tasks(self, name: str) -> Sequence[Task]:
        """Return the tasks of a split, or those in a file."""
        ...


def check_number(name: str, value: int | None) -> None:
    """Refuse a number below 1."""
    if value is not None and value < 1:
        raise ConfigurationError(f"Expected {name} to be 1 or more, got {value}.")


def named_tasks(name: str, client: Client, task_sets: Mapping[str, str] | None = None) -> list[Task]:
    """Return what ``reset`` is passed for the tasks of a name.

    Args:
        name: A split of the environment, a file, or ``REF?split=NAME`` for the rows of a dataset's environment.
        client: A client of the environment.
        task_sets: References by names that ``REF`` may be, as ``task_sets`` in ``openenv.yaml`` has them.
    """
    path = Path(name)
    found = split_of_tasks(name)
    if found is not None:
        reference, split = found
        opened = open_dataset((task_sets or {}).get(reference, reference))
        tasks = opened.resets(split, client.schemas().get("reset"))
    elif path.suffix in TASK_FILES:
        tasks = read_resets(path.resolve())
    elif is_dataset(name) or name in (task_sets or {}):
        opened = open_dataset((task_sets or {}).get(name, name))
        raise ConfigurationError(
            f"Expected a split of the dataset {name}, as in {name}?split={opened.split()}. It has: "
            f"{', '.join(opened.splits())}."
        )
    elif path.exists():
        raise ConfigurationError(
            f"Expected a file of tasks that ends in {', '.join(sorted(TASK_FILES))}, or a folder with {DATASET_FILE}, "
            f"got {name}."
        )
    else:
        tasks = task_rows(client, name)
    if not tasks:
        raise ConfigurationError(f"Expected at least one task in {name}, found none.")
    return tasks


def listed_tasks(
    tasks: int | str, lists: _TaskLists, *, seed: int, reset: Mapping[str, Any] | None = None
) -> list[Task]:
    """Return the tasks of a list to learn from, each of them once: of seeds that no evaluation has, or of a name."""
    listed = _seeds(training_seeds(seed, tasks)) if isinstance(tasks, int) else lists.named_tasks(tasks)
    return _with_reset(reset, listed)


def training_tasks(
    tasks: int | str | None,
    lists: _TaskLists,
    count: int,
    *,
    seed: int,
    reset: Mapping[str, Any] | None = None,
    shuffled: bool = True,
) -> list[Task]:
    """Return the tasks to learn from, in order: of seeds that no evaluation has, or of a list, over and over."""
    # A number is of seeds that are repeated, a text is a split or a file. More tasks begin with the same tasks.
    if tasks is None:
        return _with_reset(reset, _seeds(training_seeds(seed, count)))
    listed = listed_tasks(tasks, lists, seed=seed)
    passes = range(-(-count // len(listed)))
    order = [_shuffled(listed, derived_seed(seed, "tasks", number)) if shuffled else listed for number in passes]
    return _with_reset(reset, [task for each in order for task in each][:count])


def evaluation_tasks(
    tasks: str | None,
    lists: _TaskLists,
    count: int | None,
    *,
    seed: int,
    reset: Mapping[str, Any] | None = None,
    may_be_fewer: bool = True,
) -> list[Task]:
    """Return the tasks on which players are compared: of a split or a file, or of seeds, which no training has.

    Raises:
        ConfigurationError: A task of a file is there twice, or there are fewer than ``count``.
    """
    if tasks is None:
        seeds = evaluation_seeds(seed, DEFAULT_EVALUATION_SEEDS if count is None else count)
        return _with_reset(reset, _seeds(seeds))
    named = lists.named_tasks(tasks)
    if count is not None:
        named = named[:count] if may_be_fewer else _first(tasks, named, count)
    if split_of_tasks(tasks) is None and Path(tasks).suffix in TASK_FILES:  # other lists have each task once
        _check_each_once(tasks, named)
    return _with_reset(reset, named)


def _check_each_once(name: str, tasks: Sequence[Task]) -> None:
    """Refuse tasks that are there twice: a mean over tasks, and its interval, would count them as two."""
    first: dict[str, int] = {}
    for index, task in enumerate(tasks):
        before = first.setdefault(content_key(task), index)
        if before != index:
            raise ConfigurationError(
                f"Expected each task once in {name}, but those at {before} and {index}, counted from 0, are the same: "
                "leave one out, and try tasks several times by --samples."
            )


def _first(name: str, tasks: Sequence[Task], count: int) -> list[Task]:
    if count > len(tasks):
        raise ConfigurationError(f"Expected {count} tasks in {name}; there are {len(tasks)}.")
    return list(tasks[:count])


def _seeds(seeds: Sequence[int]) -> list[Task]:
    return [{"seed": seed} for seed in seeds]


def _shuffled(tasks: Sequence[Task], seed: int) -> list[Task]:
    return Random(seed).sample(tasks, len(tasks))  # noqa: S311  # repeatable is what is wanted


def _with_reset(reset: Mapping[str, Any] | None, tasks: Sequence[Task]) -> list[Task]:
    return [{**(reset or {}), **task} for task in tasks]
