"""HTTP routes that list an environment's tasks, in the form of the public server.

Each request gets a fresh instance, which is closed afterwards: listing tasks needs no slot of a session.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, HTTPException
from fastapi.params import Depends
from pydantic import BaseModel, JsonValue

from openenv.core.env_server.http.errors import guarded, refusals
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.tasks import SessionTasks
from openenv.core.exceptions import TaskNotFoundError, TasksUnsupportedError
from openenv.core.wire.types import GetTaskRangeRequest, GetTaskRequest, ListTasksRequest, NumTasksRequest, TaskSplit


class TaskList(BaseModel):
    """Tasks of one split, with the environment's name."""

    tasks: list[JsonValue]
    env_name: str


class TaskCount(BaseModel):
    """Number of tasks in a split."""

    num_tasks: int


class OneTask(BaseModel):
    """A task."""

    task: JsonValue


class TaskRange(BaseModel):
    """Range of tasks in one split."""

    tasks: list[JsonValue]


class _Detail(BaseModel):
    detail: str


class TaskRoutes:
    """HTTP routes for the tasks of a server.

    Args:
        sessions: Makes the instances.
        environment: Name of the environment.
    """

    def __init__(self, sessions: SessionManager, environment: str) -> None:
        self._sessions = sessions
        self._environment = environment

    def router(self, dependencies: list[Depends]) -> APIRouter:
        """Build the routes.

        Args:
            dependencies: FastAPI dependencies of each route.
        """
        missing: dict[int | str, dict[str, Any]] = {
            400: {"model": _Detail, "description": "There is no such task."},
            404: {"model": _Detail, "description": "The environment has another name."},
            501: {"model": _Detail, "description": "The environment does not say this of its tasks."},
        }
        failing = missing | refusals(429, 500, 503, 504)
        router = guarded(tags=["Tasks"], dependencies=dependencies, responses=failing)
        router.add_api_route("/list_environments", self.environments)
        router.add_api_route("/{env:path}/splits", self.splits)
        router.add_api_route("/{env:path}/tasks", self.tasks, methods=["POST"])
        router.add_api_route("/{env:path}/num_tasks", self.count, methods=["POST"])
        router.add_api_route("/{env:path}/task", self.task, methods=["POST"])
        router.add_api_route("/{env:path}/task_range", self.range, methods=["POST"])
        return router

    async def environments(self) -> list[str]:
        """List the environment's name alone."""
        return [self._environment]

    async def splits(self, env: str) -> list[TaskSplit]:
        """List the splits."""
        async with self._tasks_of(env) as tasks:
            return await tasks.splits()

    async def tasks(self, env: str, body: ListTasksRequest) -> TaskList:
        """List every task of a split."""
        async with self._tasks_of(env) as tasks:
            return TaskList(tasks=await tasks.all(body.split), env_name=self._environment)

    async def count(self, env: str, body: NumTasksRequest) -> TaskCount:
        """Count the tasks of a split."""
        async with self._tasks_of(env) as tasks:
            return TaskCount(num_tasks=await tasks.count(body.split))

    async def task(self, env: str, body: GetTaskRequest) -> OneTask:
        """Return one task."""
        async with self._tasks_of(env) as tasks:
            return OneTask(task=await tasks.get(body.split, body.index))

    async def range(self, env: str, body: GetTaskRangeRequest) -> TaskRange:
        """Return the tasks from one index up to another."""
        async with self._tasks_of(env) as tasks:
            return TaskRange(tasks=await tasks.range(body.split, body.start, body.stop))

    @asynccontextmanager
    async def _tasks_of(self, env: str) -> AsyncIterator[SessionTasks]:
        check_name(env, self._environment)
        try:
            async with self._sessions.temporary_session() as session:
                yield SessionTasks(session)
        except TasksUnsupportedError as error:
            raise HTTPException(501, error.message) from error
        except TaskNotFoundError as error:
            raise HTTPException(400, error.message) from error


def check_name(env: str, environment: str) -> None:
    """Reject a path that names another environment.

    Args:
        env: The name in the path, in upper or lower case.
        environment: Name of the environment that is served.

    Raises:
        HTTPException: The names differ; status 404.
    """
    if env.lower() != environment.lower():
        raise HTTPException(404, f"unknown environment {env!r}")
