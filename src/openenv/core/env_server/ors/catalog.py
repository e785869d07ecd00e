"""An environment's tasks as clients of ORS expect them: in full, whatever of ``TaskProvider`` the environment has."""

from collections.abc import Mapping
from typing import Any

from openenv.core.env_server.environment_types import EnvironmentFactory, environment_method
from openenv.core.env_server.session import Session
from openenv.core.env_server.task_routes import count_of, list_of_tasks, splits_of
from openenv.core.env_server.types import TaskSplit
from openenv.core.exceptions import TaskNotFoundError, TasksUnsupportedError

SEEDS = 1000
"""Tasks of an environment that lists none: seeds from 0."""


class Catalog:
    """The tasks of one environment. What it does not say follows from what it says.

    An environment that says nothing has the split ``train``, and in it a task for each of the first seeds, or just one
    where its ``reset`` takes no seed.

    Args:
        session: Answers the questions; it need not have been reset.
        factory: Makes the environments.
    """

    def __init__(self, session: Session, factory: EnvironmentFactory) -> None:
        self._session = session
        # Until the environment shows that it lacks them.
        self._has_splits = self._has_tasks = True
        # None: any, or not known here.
        self._reset_takes: frozenset[str] | None = None
        if factory.environment_class is not None:
            self._reset_takes = environment_method(factory.environment_class, "reset").arguments

    async def splits(self) -> list[TaskSplit]:
        """List the splits."""
        try:
            return splits_of(await self._session.tasks("list_splits"))
        except TasksUnsupportedError:
            self._has_splits = False
            return [TaskSplit(name="train", type="train")]

    async def tasks(self, split: str) -> list[dict[str, Any]]:
        """List the tasks of a split.

        Raises:
            TaskNotFoundError: There is no such split, as for the other methods.
        """
        await self._check(split)
        return await self._tasks(split)

    async def count(self, split: str) -> int:
        """Count the tasks of a split."""
        await self._check(split)
        try:
            return await self._count(split)
        except TasksUnsupportedError:
            return len(await self._tasks(split))

    async def task(self, split: str, index: int) -> dict[str, Any]:
        """Give one task.

        Raises:
            TaskNotFoundError: There is none at this index.
        """
        await self._check(split)
        try:
            return _as_object(await self._session.tasks("get_task", split, index))
        except TaskNotFoundError as error:
            raise TaskNotFoundError("Invalid index") from error
        except TasksUnsupportedError:
            return _at(await self._tasks(split), index)

    async def range(self, split: str, start: int | None, stop: int | None) -> list[dict[str, Any]]:
        """Give the tasks from one index up to another; they count from the end where they are negative."""
        await self._check(split)
        try:
            return _as_objects(await self._session.tasks("get_task_range", split, start, stop))
        except TaskNotFoundError as error:
            raise TaskNotFoundError("Invalid index range") from error
        except TasksUnsupportedError:
            return (await self._tasks(split))[start:stop]

    async def arguments_for(self, split: str, index: int) -> dict[str, Any]:
        """Return what ``reset`` is called with to play a task that is listed: its fields, and where it is listed.

        An environment that says nothing of tasks knows no place, and gets a seed alone.

        Raises:
            TaskNotFoundError: There is no such task.
        """
        task = await self.task(split, index)
        return {**task, "split": split, "index": index} if self._has_splits or self._has_tasks else task

    async def arguments_of(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """Return what ``reset`` is called with to play a task, which need not be listed.

        Raises:
            TaskNotFoundError: It is not listed, and ``reset`` takes nothing else.
        """
        takes = self._reset_takes
        if takes is not None and "task_spec" in takes:
            return {"task_spec": dict(task)}
        if takes is None or not {"split", "index"} <= takes or not takes.isdisjoint(task):
            return dict(task)
        for split in await self.splits():
            tasks = await self._tasks(split.name)
            if task in tasks:
                return {"split": split.name, "index": tasks.index(dict(task))}
        if not (self._has_splits or self._has_tasks):
            return dict(task)
        raise TaskNotFoundError(
            "Expected a task that this environment lists: its reset takes a split and an index, and none of the fields "
            "of a task. No task that it lists is like this one."
        )

    async def _check(self, split: str) -> None:
        if all(known.name != split for known in await self.splits()):
            raise TaskNotFoundError("Invalid split")

    async def _count(self, split: str) -> int:
        return count_of(await self._session.tasks("num_tasks", split))

    async def _tasks(self, split: str) -> list[dict[str, Any]]:
        try:
            return _as_objects(await self._session.tasks("list_tasks", split))
        except TasksUnsupportedError:
            return await self._one_by_one(split)

    async def _one_by_one(self, split: str) -> list[dict[str, Any]]:
        try:
            count = await self._count(split)
            return [_as_object(await self._session.tasks("get_task", split, index)) for index in range(count)]
        except TasksUnsupportedError:
            return self._seeds()

    def _seeds(self) -> list[dict[str, Any]]:
        self._has_tasks = False
        if self._reset_takes is None or "seed" in self._reset_takes:
            return [{"seed": seed} for seed in range(SEEDS)]
        return [{}]


def _as_objects(tasks: Any) -> list[dict[str, Any]]:
    return [_as_object(task) for task in list_of_tasks(tasks)]


def _as_object(task: Any) -> dict[str, Any]:
    """Make an object of a task, which in ORS it has to be."""
    return task if isinstance(task, dict) else {"task": task}


def _at(tasks: list[dict[str, Any]], index: int) -> dict[str, Any]:
    try:
        return tasks[index]
    except IndexError as error:
        raise TaskNotFoundError("Invalid index") from error
