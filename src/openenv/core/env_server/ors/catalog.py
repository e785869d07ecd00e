"""Catalog of an environment's tasks for clients of ORS, with defaults for missing methods of ``TaskProvider``."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.execution.reset_parameters import reset_parameters
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.sessions.tasks import SessionTasks
from openenv.core.exceptions import TaskNotFoundError, TasksUnsupportedError
from openenv.core.tasks.task_keys import content_key
from openenv.core.wire.types import TaskSplit

SEEDS = 1000
"""Number of tasks of an environment that lists none: one for each seed from 0."""


class Catalog:
    """Catalog of one environment's tasks. Methods that the environment lacks are derived from those that it has.

    An environment without any has the split ``train`` with a task for each of the first seeds, or a single task if its
    ``reset`` takes no seed.

    Args:
        session: Session whose environment is queried; it need not have been reset.
        factory: Makes the environments.
        index: Index of the tasks, shared by all catalogs of the environment.
    """

    def __init__(self, session: Session, factory: EnvironmentFactory, index: "TaskIndex") -> None:
        self._listed = SessionTasks(session)
        self._index = index
        # True until a call shows that the environment lacks these methods.
        self._has_splits = self._has_tasks = True
        # None: any, or unknown.
        self._reset_takes: frozenset[str] | None = None
        if factory.environment_class is not None:
            names = reset_parameters(factory.environment_class).names
            self._reset_takes = None if names is None else frozenset(names)

    async def splits(self) -> list[TaskSplit]:
        """List the splits."""
        try:
            return await self._listed.splits()
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
            return await self._listed.count(split)
        except TasksUnsupportedError:
            return len(await self._tasks(split))

    async def task(self, split: str, index: int) -> dict[str, Any]:
        """Return one task.

        Raises:
            TaskNotFoundError: There is no task at this index.
        """
        await self._check(split)
        try:
            return _as_object(await self._listed.get(split, index))
        except TaskNotFoundError as error:
            raise TaskNotFoundError("Invalid index") from error
        except TasksUnsupportedError:
            return _at(await self._tasks(split), index)

    async def range(self, split: str, start: int | None, stop: int | None) -> list[dict[str, Any]]:
        """Return the tasks from one index up to another; negative indices count from the end."""
        await self._check(split)
        try:
            return _as_objects(await self._listed.range(split, start, stop))
        except TaskNotFoundError as error:
            raise TaskNotFoundError("Invalid index range") from error
        except TasksUnsupportedError:
            return (await self._tasks(split))[start:stop]

    async def arguments_for(self, split: str, index: int) -> dict[str, Any]:
        """Return the arguments of ``reset`` for a listed task: its fields, its split and its index.

        An environment that lists no tasks gets a seed alone.

        Raises:
            TaskNotFoundError: There is no such task.
        """
        task = await self.task(split, index)
        return {**task, "split": split, "index": index} if self._has_splits or self._has_tasks else task

    async def arguments_of(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of ``reset`` for a task, which need not be listed.

        Raises:
            TaskNotFoundError: The task is not listed, and ``reset`` takes only listed ones.
        """
        takes = self._reset_takes
        if takes is not None and "task_spec" in takes:
            return {"task_spec": dict(task)}
        if takes is None or not {"split", "index"} <= takes or not takes.isdisjoint(task):
            return dict(task)
        listed = await self._index.find(task, self._all_tasks)
        if listed is not None:
            return {"split": listed.split, "index": listed.position}
        if not (self._has_splits or self._has_tasks):
            return dict(task)
        raise TaskNotFoundError(
            "Expected a task that this environment lists: its reset takes a split and an index, and none of the fields "
            "of a task. No listed task equals this one; list the tasks with their split and index."
        )

    async def _all_tasks(self) -> dict[str, list[dict[str, Any]]]:
        return {split.name: await self._tasks(split.name) for split in await self.splits()}

    async def _check(self, split: str) -> None:
        if all(known.name != split for known in await self.splits()):
            raise TaskNotFoundError("Invalid split")

    async def _tasks(self, split: str) -> list[dict[str, Any]]:
        try:
            return _as_objects(await self._listed.all(split))
        except TasksUnsupportedError:
            return await self._one_by_one(split)

    async def _one_by_one(self, split: str) -> list[dict[str, Any]]:
        try:
            count = await self._listed.count(split)
            return [_as_object(await self._listed.get(split, index)) for index in range(count)]
        except TasksUnsupportedError:
            return self._seeds()

    def _seeds(self) -> list[dict[str, Any]]:
        self._has_tasks = False
        if self._reset_takes is None or "seed" in self._reset_takes:
            return [{"seed": seed} for seed in range(SEEDS)]
        return [{}]


class ListedTask(NamedTuple):
    """Position of a task: its split and its index."""

    split: str
    position: int


class TaskIndex:
    """Index of an environment's tasks, so that a rollout does not list all tasks again.

    The tasks are assumed to keep their positions while the server runs. A task that is not in the index is looked up
    once in a new index.
    """

    def __init__(self) -> None:
        self._listed: dict[str, ListedTask] = {}
        self._reading = asyncio.Lock()

    async def find(
        self, task: Mapping[str, Any], list_tasks: Callable[[], Awaitable[Mapping[str, list[dict[str, Any]]]]]
    ) -> ListedTask | None:
        """Return the position of a task; ``None`` if it is not listed.

        Args:
            task: The task.
            list_tasks: Lists all tasks of every split.

        Raises:
            RequestError: The environment can't list its tasks.
        """
        key = content_key(task)
        if key not in self._listed:
            async with self._reading:
                if key not in self._listed:  # another request may have listed the tasks meanwhile
                    self._listed = _index_of(await list_tasks())
        return self._listed.get(key)


def _index_of(tasks: Mapping[str, list[dict[str, Any]]]) -> dict[str, ListedTask]:
    index: dict[str, ListedTask] = {}
    for split, listed in tasks.items():
        for position, task in enumerate(listed):
            index.setdefault(content_key(task), ListedTask(split, position))
    return index


def _as_objects(tasks: list[Any]) -> list[dict[str, Any]]:
    return [_as_object(task) for task in tasks]


def _as_object(task: Any) -> dict[str, Any]:
    """Return a task as a JSON object, which ORS requires."""
    return task if isinstance(task, dict) else {"task": task}


def _at(tasks: list[dict[str, Any]], index: int) -> dict[str, Any]:
    try:
        return tasks[index]
    except IndexError as error:
        raise TaskNotFoundError("Invalid index") from error
