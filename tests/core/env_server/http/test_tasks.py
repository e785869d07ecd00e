"""The routes by which tasks are found, in the public server's form."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.environments.tasked import CountingTasksEnvironment, ListingEnvironment, WrongListsEnvironment
from tests.support.servers import RunningServer

from openenv.core.env_server.app import create_fastapi_app

ALL_SPLITS = [
    {"name": "train", "type": "train"},
    {"name": "curious", "type": "validation"},
    {"name": "held-out", "type": "test"},
    {"name": "test", "type": "test"},
]


def answered(server: RunningServer, path: str, body: Any = None) -> tuple[int, Any]:
    with server.http() as client:
        response = client.get(path) if body is None else client.post(path, json=body)
    return response.status_code, response.json()


@pytest.fixture(scope="module")
def listing() -> Iterator[RunningServer]:
    """One server for all tests that only read its tasks."""
    app = create_fastapi_app(ListingEnvironment, Add, Total, env_name="Listing_env", max_concurrent_envs=8)
    with RunningServer(app) as server:
        yield server


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        ("splits", None, ALL_SPLITS),
        ("tasks", {"split": "test"}, {"tasks": [{"start": 9}], "env_name": "Listing_env"}),
        ("num_tasks", {"split": "train"}, {"num_tasks": 3}),
        ("task", {"split": "train", "index": 1}, {"task": {"start": 2}}),
        ("task_range", {"split": "train", "start": 1, "stop": 2}, {"tasks": [{"start": 2}]}),
        ("task_range", {"split": "train"}, {"tasks": [{"start": 1}, {"start": 2}, {"start": 3}]}),
    ],
)
@pytest.mark.parametrize("name", ["Listing_env", "listing_env"])
def test_every_question_is_answered_to_the_letter(
    listing: RunningServer, name: str, path: str, body: Any, answer: Any
) -> None:
    assert answered(listing, f"/{name}/{path}", body) == (200, answer)


def test_the_environment_is_the_only_one(listing: RunningServer) -> None:
    assert answered(listing, "/list_environments") == (200, ["Listing_env"])
    assert answered(listing, "/other/splits") == (404, {"detail": "unknown environment 'other'"})
    assert answered(listing, "/other/tasks", {"split": "train"})[0] == 404


def test_no_such_task(listing: RunningServer) -> None:
    body = {"split": "train", "index": 3}
    assert answered(listing, "/listing_env/task", body) == (400, {"detail": "Invalid task index"})


@pytest.mark.parametrize(
    ("path", "body"),
    [("tasks", {}), ("num_tasks", {"split": 1}), ("task", {"split": "train"}), ("task_range", []), ("task", "x")],
)
def test_a_body_that_does_not_fit(listing: RunningServer, path: str, body: Any) -> None:
    assert answered(listing, f"/listing_env/{path}", body)[0] == 422


def test_what_an_environment_does_not_say(serve: Serve) -> None:
    server = serve(CountingTasksEnvironment, env_name="few")
    assert answered(server, "/few/splits") == (501, {"detail": "list_splits is not supported for this environment"})
    assert answered(server, "/few/tasks", {"split": "x"})[0] == 501
    assert answered(server, "/few/num_tasks", {"split": "x"}) == (200, {"num_tasks": 3})
    assert answered(server, "/few/task", {"split": "x", "index": 0}) == (200, {"task": "a"})


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("splits", None, "expected its name, or an object with name and type"),
        ("tasks", {"split": "train"}, "expected a list"),
        ("num_tasks", {"split": "minus"}, "num_tasks returned -1; expected a number from 0"),
        ("num_tasks", {"split": "flag"}, "num_tasks returned True"),
        ("num_tasks", {"split": "train"}, "num_tasks returned 'many'"),
        ("task", {"split": "train", "index": 0}, "kaboom"),
    ],
)
def test_an_environment_that_answers_wrongly(serve: Serve, path: str, body: Any, told: str) -> None:
    status, answer = answered(serve(WrongListsEnvironment, env_name="wrong"), f"/wrong/{path}", body)
    assert (status, answer["code"]) == (500, "EXECUTION_ERROR")
    assert told in answer["detail"]


def test_questions_take_no_place_and_leave_no_instance(serve: Serve) -> None:
    class Noted(ListingEnvironment):
        made, closed = 0, 0

        def __init__(self) -> None:
            super().__init__()
            Noted.made += 1

        def close(self) -> None:
            Noted.closed += 1

    server = serve(Noted, env_name="noted", max_concurrent_envs=1)
    with server.wire() as wire:
        assert wire.reset()["type"] == "observation"  # the only slot is in use
        made, closed = Noted.made, Noted.closed
        for _ in range(3):
            assert answered(server, "/noted/splits") == (200, ALL_SPLITS)
        assert answered(server, "/noted/task", {"split": "train", "index": 3})[0] == 400
        assert (Noted.made - made, Noted.closed - closed) == (4, 4)
        assert server.sessions.active_sessions == 1


@pytest.mark.parametrize("mode", ["simulation", "production"])
def test_both_modes_answer(serve: Serve, mode: str) -> None:
    server = serve(ListingEnvironment, env_name="listing", mode=mode)
    assert answered(server, "/listing/splits") == (200, ALL_SPLITS)


def test_questions_count_towards_the_messages_of_a_client(serve: Serve) -> None:
    server = serve(CounterEnvironment, env_name="c", max_messages_per_s=2)
    statuses = [answered(server, "/list_environments")[0] for _ in range(10)]
    assert 429 in statuses


def test_a_chosen_task_is_played(listing: RunningServer) -> None:
    with listing.wire() as wire:
        assert wire.reset(split="train", index=2)["data"]["observation"]["total"] == 3
