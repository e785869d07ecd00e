"""A client asks a server for the tasks of its environment."""

import asyncio
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.support.environments.common import CounterEnvironment
from tests.support.environments.tasked import AsyncListingEnvironment, ListingEnvironment
from tests.support.servers import RunningServer

from openenv import GenericEnvClient
from openenv.core.client.server_api import fetch_tasks
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    RequestRejectedError,
    ServerExecutionError,
    ServerUnauthorizedError,
)
from openenv.core.tasks import TaskListing


class PlacesEnvironment(TaskListing, CounterEnvironment):
    """Counts its tasks in the way of our own environments."""

    @property
    def task_counts(self) -> Mapping[str, int]:
        return {"train": 2}


def test_tasks_are_what_reset_is_passed() -> None:
    with RunningServer(create_fastapi_app(ListingEnvironment)) as server:
        assert fetch_tasks(server.url, "test") == [{"start": 9, "split": "test", "index": 0}]
        assert fetch_tasks(server.url.replace("http", "ws"), "test") == fetch_tasks(server.url + "/", "test")
        with pytest.raises(ServerExecutionError, match=r"tasks at .*/tasks, but: 'curious'"):
            fetch_tasks(server.url, "curious")  # which is listed, and has none


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
            fetch_tasks(server.url, "trian")
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


def test_an_environment_without_tasks_says_so() -> None:
    with (
        RunningServer(create_fastapi_app(CounterEnvironment)) as server,
        pytest.raises(ConfigurationError, match="lists no tasks"),
    ):
        fetch_tasks(server.url, "train")


def test_what_is_no_server_of_ours_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="looks like http://host:port"):
        fetch_tasks("ftp://localhost", "train")
    with pytest.raises(ConnectionFailedError, match=r"tasks at http://127\.0\.0\.1:9"):
        fetch_tasks("http://127.0.0.1:9", "train")


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
            assert fetch_tasks(url, "test", {"Authorization": "Bearer secret"})[0]["n"] == 1
            with pytest.raises(ServerUnauthorizedError, match=r"This server asks for a token\."):
                fetch_tasks(url, "test")
        finally:
            server.shutdown()
            thread.join()
