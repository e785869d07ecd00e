"""What tasks there are to play."""

from collections.abc import Iterator

import pytest
from datasets import Dataset  # type: ignore[import-untyped]
from tests.support.environments.tasked import CountingTasksEnvironment, ListingEnvironment
from tests.support.servers import RunningServer

from openenv import GenericEnvClient
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import ConfigurationError
from openenv.train.tasks.seeds import evaluation_seeds
from openenv.train.tasks.task_rows import DEFAULT_NUM_TASKS, task_rows


@pytest.fixture(scope="module")
def listing() -> Iterator[RunningServer]:
    with RunningServer(create_fastapi_app(ListingEnvironment)) as server:
        yield server


def test_without_tasks_there_are_seeds_which_evaluation_does_not_use() -> None:
    rows = task_rows(None)

    assert len(rows) == DEFAULT_NUM_TASKS
    assert all(row.keys() == {"seed"} for row in rows)
    assert not {row["seed"] for row in rows} & set(evaluation_seeds(0, 1000))
    assert task_rows(None, 3) == task_rows(None, num_tasks=3) == rows[:3]
    assert task_rows(None, 3, seed=1) != rows[:3]


def test_tasks_may_be_given(listing: RunningServer) -> None:
    given = [{"start": 1}, {"start": 2}]

    assert task_rows(None, given) == given
    assert task_rows(None, iter(given), num_tasks=1) == given[:1]
    assert task_rows(None, Dataset.from_list(given)) == given


def test_a_split_is_listed_with_places(listing: RunningServer) -> None:
    with GenericEnvClient(base_url=listing.url).sync() as client:
        rows = task_rows(client, "train")
        first = task_rows(client.async_client, "train", num_tasks=1)
        total = client.reset(**rows[2]).observation["total"]

    assert rows == [{"start": number, "split": "train", "index": number - 1} for number in (1, 2, 3)]
    assert first == rows[:1]
    assert total == 3


def test_tasks_that_are_only_counted_are_places() -> None:
    app = create_fastapi_app(CountingTasksEnvironment)
    with RunningServer(app) as server, GenericEnvClient(base_url=server.url).sync() as client:
        assert task_rows(client, "train") == [{"split": "train", "index": index} for index in range(3)]


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (0, "at least one task"),
        (True, "at least one task"),
        ([], "got none"),
        ([{"seed": 1}, 7], "as a mapping of what reset takes"),
        ("train", "Expected a client"),
    ],
)
def test_what_is_no_task_is_an_error(tasks: object, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        task_rows(None, tasks)
    with pytest.raises(ConfigurationError, match="num_tasks to be 1 or more"):
        task_rows(None, num_tasks=0)
