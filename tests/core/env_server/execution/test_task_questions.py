"""What environments say of their tasks, wherever they live."""

import asyncio
from typing import Any

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.environments.tasked import (
    TASKS,
    AsyncListingEnvironment,
    ListingEnvironment,
    WrongListsEnvironment,
)

from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.execution.task_questions import TaskMethod
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.types import State
from openenv.core.environment_types import EnvironmentTypes
from openenv.core.exceptions import (
    EnvironmentFailedError,
    EnvironmentTimeoutError,
    TaskNotFoundError,
    TasksUnsupportedError,
)

TYPES = EnvironmentTypes(Add, Total, State)


async def asked(environment: Any, method: TaskMethod, *arguments: Any, **settings: Any) -> Any:
    sessions = SessionManager(EnvironmentFactory(environment), TYPES, ServerConfig(**settings))
    await sessions.start()
    try:
        async with sessions.temporary_session() as session:
            return await session.tasks(method, *arguments)
    finally:
        await sessions.close_all()


async def asked_elsewhere(environment: Any, method: TaskMethod, *arguments: Any) -> Any:
    """Ask an environment in a process of its own."""
    sessions = SessionManager(EnvironmentFactory(environment), TYPES, ServerConfig(), sessions_per_process=1)
    await sessions.start()
    try:
        async with sessions.temporary_session() as session:
            return await session.tasks(method, *arguments)
    finally:
        await sessions.close_all()


@pytest.mark.parametrize("environment", [ListingEnvironment, AsyncListingEnvironment])
async def test_plain_and_async_methods_answer(environment: Any) -> None:
    assert await asked(environment, "list_tasks", "train") == TASKS["train"]
    assert await asked(environment, "num_tasks", "test") == 1
    assert await asked(environment, "get_task", "train", 2) == {"start": 3}


async def test_what_is_iterated_over_comes_as_a_list() -> None:
    assert await asked(ListingEnvironment, "get_task_range", "train", 1, None) == [{"start": 2}, {"start": 3}]


@pytest.mark.parametrize("environment", [ListingEnvironment, AsyncListingEnvironment])
async def test_no_such_task(environment: Any) -> None:
    with pytest.raises(TaskNotFoundError, match="Invalid task index"):
        await asked(environment, "get_task", "train", 3)


@pytest.mark.parametrize(
    ("environment", "method"), [(CounterEnvironment, "list_splits"), (AsyncListingEnvironment, "get_task_range")]
)
async def test_an_answer_that_the_environment_does_not_give(environment: Any, method: TaskMethod) -> None:
    arguments = () if method == "list_splits" else ("train", None, None)
    with pytest.raises(TasksUnsupportedError, match=f"^{method} is not supported for this environment$"):
        await asked(environment, method, *arguments)


async def test_an_attribute_that_is_no_method_is_no_answer() -> None:
    class Named(CounterEnvironment):
        list_splits = ("train",)

    with pytest.raises(TasksUnsupportedError):
        await asked(Named, "list_splits")


@pytest.mark.parametrize("split", ["other", "text"])
async def test_what_raises_fails(split: str) -> None:
    with pytest.raises(EnvironmentFailedError, match="kaboom"):
        await asked(WrongListsEnvironment, "get_task", split, 0)


async def test_what_has_no_form_in_json_fails() -> None:
    with pytest.raises(EnvironmentFailedError, match="The tasks cannot be sent as JSON"):
        await asked(WrongListsEnvironment, "list_tasks", "unsendable")


async def test_it_may_take_as_long_as_a_reset() -> None:
    class Slow(AsyncListingEnvironment):
        async def list_splits(self) -> list[str]:
            await asyncio.Event().wait()
            return []

    with pytest.raises(EnvironmentTimeoutError, match="list_splits did not finish"):
        await asked(Slow, "list_splits", reset_timeout_s=0.05)


@pytest.mark.level("process")
async def test_the_same_comes_from_another_process() -> None:
    assert await asked_elsewhere(ListingEnvironment, "list_tasks", "train") == TASKS["train"]
    assert (await asked_elsewhere(ListingEnvironment, "list_splits"))[3] == {"name": "test", "type": "test"}
    with pytest.raises(TaskNotFoundError, match="Invalid task index"):
        await asked_elsewhere(ListingEnvironment, "get_task", "train", 3)
    with pytest.raises(TasksUnsupportedError) as caught:
        await asked_elsewhere(CounterEnvironment, "num_tasks", "train")
    assert caught.value.method == "num_tasks"
