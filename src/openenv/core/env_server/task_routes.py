"""The HTTP routes by which anybody finds an environment's tasks, in the form of the public server.

Each question goes to a fresh instance, which is closed afterwards: listing tasks takes no session's place.
"""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, HTTPException
from fastapi.params import Depends
from pydantic import BaseModel, JsonValue, ValidationError

from openenv.core.env_server.http import refusals
from openenv.core.env_server.sessions import Sessions
from openenv.core.env_server.tasks import TaskMethod
from openenv.core.env_server.types import (
    GetTaskRangeRequest,
    GetTaskRequest,
    ListTasksRequest,
    NumTasksRequest,
    TaskSplit,
)
from openenv.core.exceptions import EnvironmentFailedError, TaskNotFoundError, TasksUnsupportedError

_KNOWN_SPLITS = ("train", "validation", "test")


class TaskList(BaseModel):
    """Tasks of one split, and whose they are."""

    tasks: list[JsonValue]
    env_name: str


class TaskCount(BaseModel):
    """How many tasks a split has."""

    num_tasks: int


class OneTask(BaseModel):
    """A task."""

    task: JsonValue


class TaskRange(BaseModel):
    """Neighbouring tasks of one split."""

    tasks: list[JsonValue]


class _Detail(BaseModel):
    detail: str


class TaskRoutes:
    """The routes of one server.

    Args:
        sessions: Where instances come from.
        environment: Name of the environment.
    """

    def __init__(self, sessions: Sessions, environment: str) -> None:
        self._sessions = sessions
        self._environment = environment

    def router(self, dependencies: list[Depends]) -> APIRouter:
        """Build the routes.

        Args:
            dependencies: What is asked before each of them.
        """
        missing: dict[int | str, dict[str, Any]] = {
            400: {"model": _Detail, "description": "There is no such task."},
            404: {"model": _Detail, "description": "The environment has another name."},
            501: {"model": _Detail, "description": "The environment does not say this of its tasks."},
        }
        router = APIRouter(tags=["Tasks"], dependencies=dependencies, responses=missing | refusals(429, 500, 503, 504))
        router.add_api_route("/list_environments", self.environments)
        router.add_api_route("/{env:path}/splits", self.splits)
        router.add_api_route("/{env:path}/tasks", self.tasks, methods=["POST"])
        router.add_api_route("/{env:path}/num_tasks", self.count, methods=["POST"])
        router.add_api_route("/{env:path}/task", self.task, methods=["POST"])
        router.add_api_route("/{env:path}/task_range", self.range, methods=["POST"])
        return router

    async def environments(self) -> list[str]:
        """Name the environment, as the only one of a list."""
        return [self._environment]

    async def splits(self, env: str) -> list[TaskSplit]:
        """List the splits."""
        return splits_of(await self._ask(env, "list_splits"))

    async def tasks(self, env: str, body: ListTasksRequest) -> TaskList:
        """List every task of a split."""
        tasks = await self._ask(env, "list_tasks", body.split)
        return TaskList(tasks=list_of_tasks(tasks), env_name=self._environment)

    async def count(self, env: str, body: NumTasksRequest) -> TaskCount:
        """Count the tasks of a split."""
        return TaskCount(num_tasks=count_of(await self._ask(env, "num_tasks", body.split)))

    async def task(self, env: str, body: GetTaskRequest) -> OneTask:
        """Give one task."""
        return OneTask(task=await self._ask(env, "get_task", body.split, body.index))

    async def range(self, env: str, body: GetTaskRangeRequest) -> TaskRange:
        """Give the tasks from one index up to another."""
        tasks = await self._ask(env, "get_task_range", body.split, body.start, body.stop)
        return TaskRange(tasks=list_of_tasks(tasks))

    async def _ask(self, env: str, method: TaskMethod, *arguments: Any) -> Any:
        check_name(env, self._environment)
        try:
            async with self._sessions.apart() as session:
                return await session.tasks(method, *arguments)
        except TasksUnsupportedError as error:
            raise HTTPException(501, error.message) from error
        except TaskNotFoundError as error:
            raise HTTPException(400, error.message) from error


def check_name(env: str, environment: str) -> None:
    """Refuse a path that names another environment.

    Args:
        env: The name in the path, in upper or lower case.
        environment: The name of the one that is served.

    Raises:
        HTTPException: It is another one; status 404.
    """
    if env.lower() != environment.lower():
        raise HTTPException(404, f"unknown environment {env!r}")


def splits_of(listed: Any) -> list[TaskSplit]:
    """Read what ``list_splits`` gave: a name, or an object with a name and a type, for each split.

    Raises:
        EnvironmentFailedError: It gave something else.
    """
    if not isinstance(listed, list):
        raise EnvironmentFailedError(f"list_splits returned {type(listed).__name__}; expected a list.")
    return [_split_of(split) for split in listed]


def list_of_tasks(tasks: Any) -> list[Any]:
    """Check what ``list_tasks`` or ``get_task_range`` gave.

    Raises:
        EnvironmentFailedError: It is no list.
    """
    if isinstance(tasks, list):
        return tasks
    raise EnvironmentFailedError(f"The environment's tasks are {type(tasks).__name__}; expected a list.")


def count_of(count: Any) -> int:
    """Check what ``num_tasks`` gave.

    Raises:
        EnvironmentFailedError: It is no number of tasks.
    """
    if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
        return count
    raise EnvironmentFailedError(f"num_tasks returned {count!r:.100}; expected a number from 0.")


def _split_of(split: Any) -> TaskSplit:
    fields: Mapping[str, Any] = split if isinstance(split, dict) else {"name": split}
    name = fields.get("name")
    kind = fields.get("type", name)
    try:
        return TaskSplit.model_validate({"name": name, "type": kind if kind in _KNOWN_SPLITS else "validation"})
    except ValidationError as error:
        raise EnvironmentFailedError(
            f"list_splits returned {split!r:.100} for a split; expected its name, or an object with name and type."
        ) from error
