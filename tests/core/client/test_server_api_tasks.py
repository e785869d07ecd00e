"""A client asks a server for the tasks of its environment."""

import asyncio
import itertools
import json
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from fastapi import Request, Response
from tests.support.environments.common import CounterEnvironment, Total
from tests.support.environments.tasked import AsyncListingEnvironment, CountingTasksEnvironment, ListingEnvironment
from tests.support.servers import RunningServer

from openenv import GenericEnvClient
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    RequestRejectedError,
    ServerExecutionError,
    ServerUnauthorizedError,
)
from openenv.core.tasks import TaskAPIClient, TaskListing, TaskSet


class PlacesEnvironment(TaskListing, CounterEnvironment):
    """Counts its tasks in the way of our own environments."""

    @property
    def task_counts(self) -> Mapping[str, int]:
        return {"train": 2}


def test_tasks_are_what_reset_is_passed() -> None:
    with RunningServer(create_fastapi_app(ListingEnvironment)) as server:
        assert TaskAPIClient(server.url).list_tasks("test") == [{"start": 9, "split": "test", "index": 0}]
        assert TaskAPIClient(server.url.replace("http", "ws")).list_tasks("test") == TaskAPIClient(
            server.url + "/"
        ).list_tasks("test")
        with pytest.raises(ServerExecutionError, match=r"tasks at .*/tasks, but: 'curious'"):
            TaskAPIClient(server.url).list_tasks("curious")  # which is listed, and has none


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (PlacesEnvironment, r"no split 'trian' \(did you mean 'train'\?\)\. It has: train\."),
        (ListingEnvironment, r"no split 'trian' \(did you mean 'train'\?\)\. It has: train, curious, held-out, test\."),
        (AsyncListingEnvironment, r"no split 'trian' \(did you mean 'train'\?\)\. It has: train, test\."),
    ],
)
def test_a_split_that_is_not_there_is_refused_with_the_nearest(environment: Any, said: str) -> None:
    with RunningServer(create_fastapi_app(environment)) as server:
        with pytest.raises(ConfigurationError, match=said):
            TaskAPIClient(server.url).list_tasks("trian")
        with GenericEnvClient(base_url=server.url).sync() as client:
            if environment is not AsyncListingEnvironment:  # whose reset takes no split
                with pytest.raises(RequestRejectedError, match=said):
                    client.reset(split="trian", index=0)
            assert client.reset(split="train", index=0).done is False


def test_a_client_lists_them_in_both_of_its_ways() -> None:
    with RunningServer(create_fastapi_app(AsyncListingEnvironment)) as server:
        blocking = GenericEnvClient(base_url=server.url)
        listed = blocking.tasks("train")
        with blocking.sync() as facade:
            assert facade.tasks("train") == listed

        async def ask() -> object:
            async with GenericEnvClient(base_url=server.url) as client:
                return await client.tasks("train")

        assert asyncio.run(ask()) == listed
    assert [row["start"] for row in listed] == [1, 2, 3]  # type: ignore[attr-defined]  # it blocked


COUNTRIES = [{"country": name, "split": "test", "id": name} for name in ("Kenya", "Peru", "Chad", "Fiji", "Oman")]


class CountryEnvironment(CounterEnvironment):
    """Has its tasks as rows."""

    tasks = TaskSet(COUNTRIES)

    def reset(self, country: str, seed: int | None = None) -> Total:  # type: ignore[override]
        super().reset(seed)
        return Total(total=len(country))


def test_tasks_are_counted_and_listed_in_parts() -> None:
    with RunningServer(create_fastapi_app(CountryEnvironment)) as server:
        ids = [country["country"] for country in COUNTRIES]
        with GenericEnvClient(base_url=server.url).sync() as client:
            assert client.num_tasks("test") == 5
            assert client.task("test", 1) == {"id": "Peru", "split": "test", "index": 1}
            assert [task["id"] for task in client.task_range("test", 1, 3)] == ids[1:3]
            assert [task["id"] for task in client.task_range("test")] == ids
            with pytest.raises(ConfigurationError, match=r"index from 0 to 4 in the split test, got 5") as caught:
                client.task("test", 5)
            assert isinstance(caught.value, IndexError)
            assert client.reset(**client.task("test", 4)).observation["total"] == 4
            tasks = TaskAPIClient.from_env_client(client)
            assert tasks.env_name == "CountryEnvironment"
            assert tasks.list_splits() == [{"name": "test", "type": "test"}]
            assert [task["id"] for task in tasks.iter_tasks("test", page_size=2)] == ids
            assert list(tasks.iter_tasks("test", page_size=5)) == tasks.list_tasks("test")
        plain = GenericEnvClient(base_url=server.url)
        assert TaskAPIClient.from_env_client(plain).list_tasks("test") == tasks.list_tasks("test")
        assert plain.num_tasks("test") == 5  # type: ignore[comparison-overlap]  # it blocked
        with pytest.raises(ConfigurationError, match="page_size to be 1 or more, got 0"):
            next(tasks.iter_tasks("test", page_size=0))
        with pytest.raises(ConfigurationError, match="unknown environment 'other'"):
            TaskAPIClient(server.url, "other").num_tasks("test")


def test_a_client_reads_the_names_of_the_environment_and_its_splits_once() -> None:
    app = create_fastapi_app(CountryEnvironment)
    paths: list[str] = []

    @app.middleware("http")
    async def note(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        paths.append(request.url.path)
        return await answer(request)

    with RunningServer(app) as server, GenericEnvClient(base_url=server.url).sync() as client:
        assert client.splits() == ["test"]
        assert client.num_tasks("test") == 5
        assert [client.task("test", index)["id"] for index in range(5)] == [each["id"] for each in COUNTRIES]
        read = Counter(paths)
        assert (read["/list_environments"], read["/CountryEnvironment/splits"], read.total()) == (1, 1, 8)
        with pytest.raises(ConfigurationError, match="no split 'trian'"):
            client.task("trian", 0)  # which may be there by now
        assert Counter(paths) - read == {"/CountryEnvironment/splits": 1}


def test_what_lists_of_a_part_lack_is_got_by_another_route() -> None:
    with RunningServer(create_fastapi_app(AsyncListingEnvironment)) as server:  # which has no range
        tasks = TaskAPIClient(server.url)
        assert [task["start"] for task in tasks.iter_tasks("train", page_size=2)] == [1, 2, 3]
    with RunningServer(create_fastapi_app(CountingTasksEnvironment)) as server:  # which has no list
        tasks = TaskAPIClient(server.url)
        assert tasks.get_task("train", 1) == {"task": "b", "split": "train", "index": 1}
        assert [task["index"] for task in tasks.iter_tasks("train", page_size=2)] == [0, 1, 2]


def endless() -> Iterator[dict[str, int]]:
    for number in itertools.count():
        yield {"number": number}


class EndlessEnvironment(CounterEnvironment):
    """Makes its tasks when they are needed."""

    tasks = TaskSet(endless)

    def reset(self, number: int, seed: int | None = None) -> Total:  # type: ignore[override]
        super().reset(seed)
        return Total(total=number)


def test_tasks_that_are_not_counted() -> None:
    with RunningServer(create_fastapi_app(EndlessEnvironment)) as server:
        tasks = TaskAPIClient(server.url)
        assert [task["index"] for task in itertools.islice(tasks.iter_tasks("train", page_size=2), 5)] == [
            0,
            1,
            2,
            3,
            4,
        ]
        with pytest.raises(NotImplementedError, match="not supported"):
            tasks.num_tasks("train")


def test_an_environment_without_tasks_says_so() -> None:
    with RunningServer(create_fastapi_app(CounterEnvironment)) as server:
        tasks = TaskAPIClient(server.url)
        for asked in (tasks.list_tasks, tasks.num_tasks, tasks.get_task_range, lambda split: tasks.get_task(split, 0)):
            with pytest.raises(ConfigurationError, match="lists no tasks") as caught:
                asked("train")
            assert isinstance(caught.value, NotImplementedError)
        with pytest.raises(NotImplementedError):
            tasks.list_splits()
        assert tasks.split_names() == []


def test_what_is_no_server_of_ours_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="looks like http://host:port"):
        TaskAPIClient("ftp://localhost").list_tasks("train")
    with pytest.raises(ConnectionFailedError, match=r"tasks at http://127\.0\.0\.1:9"):
        TaskAPIClient("http://127.0.0.1:9").list_tasks("train")


class _Guarded(BaseHTTPRequestHandler):
    """Asks for a token."""

    def do_GET(self) -> None:
        known = self.headers.get("Authorization") == "Bearer secret"
        listed = [{"name": "test"}] if self.path.endswith("/splits") else ["notes"]
        self._answer(200 if known else 401, listed if known else {"detail": "This server asks for a token."})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200, {"tasks": [{"n": 1}]})

    def _answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_token_is_shown() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Guarded) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            assert TaskAPIClient(url, headers={"Authorization": "Bearer secret"}).list_tasks("test")[0]["n"] == 1
            with pytest.raises(ServerUnauthorizedError, match=r"This server asks for a token\."):
                TaskAPIClient(url).list_tasks("test")
        finally:
            server.shutdown()
            thread.join()
