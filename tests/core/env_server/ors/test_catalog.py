"""The tasks of an environment as ORS wants them, whatever the environment says of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.environments.tasked import (
    TASKS,
    AsyncListingEnvironment,
    CountingTasksEnvironment,
    ListingEnvironment,
)

from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.ors.catalog import SEEDS, Catalog, TaskIndex
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.types import State
from openenv.core.environment_types import EnvironmentTypes
from openenv.core.exceptions import TaskNotFoundError

TYPES = EnvironmentTypes(Add, Total, State)
FEW = [{"task": "a"}, {"task": "b"}, {"task": "c"}]
TRAIN = TASKS["train"]


class ListOnlyEnvironment(CounterEnvironment):
    """Knows one way to say it."""

    def list_tasks(self, split: str) -> list[dict[str, int]]:
        return TASKS[split]


class NoSeedEnvironment(CounterEnvironment):
    """Has one task and does not say so."""

    def reset(self) -> Total:  # type: ignore[override]
        return super().reset()


class WholeTaskEnvironment(CounterEnvironment):
    """Takes a task as a whole, or from the list."""

    def reset(self, split: str = "", index: int = 0, task_spec: Any = None) -> Total:  # type: ignore[override]
        return super().reset()


def make_something():  # type: ignore[no-untyped-def]  # which is the point
    return CounterEnvironment()


@asynccontextmanager
async def catalog_of(environment: Any) -> AsyncIterator[Catalog]:
    factory = EnvironmentFactory(environment)
    sessions = SessionManager(factory, TYPES, ServerConfig())
    async with sessions.temporary_session() as session:
        yield Catalog(session, factory, TaskIndex())
    await sessions.close_all()


@pytest.mark.parametrize(
    ("environment", "split", "tasks"),
    [
        (ListingEnvironment, "train", TRAIN),
        (AsyncListingEnvironment, "train", TRAIN),
        (ListOnlyEnvironment, "train", TRAIN),
        (CountingTasksEnvironment, "train", FEW),
        (NoSeedEnvironment, "train", [{}]),
    ],
)
async def test_every_question_has_an_answer(environment: Any, split: str, tasks: list[Any]) -> None:
    async with catalog_of(environment) as catalog:
        assert split in [known.name for known in await catalog.splits()]
        assert await catalog.tasks(split) == tasks
        assert await catalog.count(split) == len(tasks)
        assert await catalog.task(split, 0) == tasks[0]
        assert await catalog.range(split, None, None) == tasks
        assert await catalog.range(split, 0, 1) == tasks[:1]
        assert await catalog.range(split, -1, None) == tasks[-1:]
        with pytest.raises(TaskNotFoundError, match="Invalid index"):
            await catalog.task(split, len(tasks))


async def test_an_environment_that_says_nothing_has_seeds() -> None:
    async with catalog_of(CounterEnvironment) as catalog:
        assert [split.model_dump() for split in await catalog.splits()] == [{"name": "train", "type": "train"}]
        assert await catalog.count("train") == SEEDS
        assert await catalog.task("train", 7) == {"seed": 7}
        assert await catalog.arguments_for("train", 7) == {"seed": 7}
        assert await catalog.arguments_of({"seed": 123_456}) == {"seed": 123_456}


async def test_whoever_names_splits_is_told_the_one_that_is_played() -> None:
    class Splits(CounterEnvironment):
        def list_splits(self) -> list[str]:
            return ["easy", "hard"]

    async with catalog_of(Splits) as catalog:
        assert await catalog.arguments_for("hard", 7) == {"seed": 7, "split": "hard", "index": 7}
    async with catalog_of(ListOnlyEnvironment) as catalog:
        assert await catalog.arguments_for("train", 1) == {**TRAIN[1], "split": "train", "index": 1}


async def test_a_factory_that_says_nothing_of_its_class_has_seeds_too() -> None:
    async with catalog_of(make_something) as catalog:
        assert await catalog.task("train", 7) == {"seed": 7}


async def test_other_splits_are_none() -> None:
    async with catalog_of(ListingEnvironment) as catalog:
        for asked in (
            catalog.tasks("nope"),
            catalog.count("nope"),
            catalog.task("nope", 0),
            catalog.range("nope", 0, 1),
            catalog.arguments_for("nope", 0),
        ):
            with pytest.raises(TaskNotFoundError, match="Invalid split"):
                await asked


async def test_a_reset_gets_the_tasks_fields_and_where_it_is_listed() -> None:
    async with catalog_of(AsyncListingEnvironment) as catalog:
        assert await catalog.arguments_for("train", 1) == {"start": 2, "split": "train", "index": 1}
        assert await catalog.arguments_of({"start": 77}) == {"start": 77}


async def test_a_task_is_looked_up_where_a_reset_takes_nothing_else() -> None:
    class Listing(ListingEnvironment):
        def list_splits(self) -> list[str]:
            return ["train", "test"]

    async with catalog_of(Listing) as catalog:
        assert await catalog.arguments_of({"start": 9}) == {"split": "test", "index": 0}
        assert await catalog.arguments_of({"start": 2}) == {"split": "train", "index": 1}
        with pytest.raises(TaskNotFoundError, match="Expected a task that this environment lists"):
            await catalog.arguments_of({"start": 77})


async def test_tasks_are_listed_once_for_many_rollouts() -> None:
    class Listing(ListingEnvironment):
        listings = 0
        tasks: ClassVar[list[Any]] = [{"start": 1, "scale": 1.0}, {"start": 2, "scale": 0.5}]

        def list_tasks(self, split: str) -> list[Any]:
            type(self).listings += 1
            return self.tasks

    factory = EnvironmentFactory(Listing)
    sessions = SessionManager(factory, TYPES, ServerConfig())
    index = TaskIndex()

    async def place_of(task: dict[str, Any]) -> int:
        async with sessions.temporary_session() as session:
            arguments = await Catalog(session, factory, index).arguments_of(task)
        assert arguments["split"] == "train"
        return int(arguments["index"])

    assert [await place_of(task) for task in Listing.tasks * 3] == [0, 1] * 3
    assert await place_of({"scale": 1, "start": 1}) == 0, "equal, as another program writes it"
    assert Listing.listings == len(await _splits_of(Listing))
    Listing.tasks = [*Listing.tasks, {"start": 3}]
    assert await place_of({"start": 3}) == 2, "it is new"
    await sessions.close_all()


async def _splits_of(environment: Any) -> list[str]:
    async with catalog_of(environment) as catalog:
        return [split.name for split in await catalog.splits()]


async def test_a_task_is_handed_on_where_a_reset_takes_one_as_a_whole() -> None:
    async with catalog_of(WholeTaskEnvironment) as catalog:
        assert await catalog.arguments_of({"any": 1}) == {"task_spec": {"any": 1}}
