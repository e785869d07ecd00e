"""The schemas that a server publishes, as a client reads them."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.support.environments.common import Add, Total
from tests.support.servers import RunningServer

from openenv.core.client.generic import GenericEnvClient
from openenv.core.client.server_api import fetch_schemas
from openenv.core.exceptions import ConfigurationError, ConnectionFailedError


@contextmanager
def saying(status: int, body: str) -> Iterator[tuple[str, list[str]]]:
    """A server with one answer to everything; gives its address, and the tokens and paths that it is asked for."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers.get('X-Token')}")
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join(60)


def test_the_schemas_of_a_running_server(counter_server: RunningServer) -> None:
    with GenericEnvClient(base_url=counter_server.url).sync() as client:
        schemas = client.schemas()
    assert schemas["action"] == Add.model_json_schema()
    assert schemas["observation"] == Total.model_json_schema()
    assert schemas["state"]["title"] == "State"


async def test_inside_a_running_loop_they_are_awaited(counter_server: RunningServer) -> None:
    client = GenericEnvClient(base_url=counter_server.url)
    assert (await client.schemas())["action"]["title"] == "Add"
    await client.close()


def test_asking_takes_no_session(counter_server: RunningServer) -> None:
    client = GenericEnvClient(base_url=counter_server.url)
    before = counter_server.sessions.active_sessions
    client.sync().schemas()
    assert counter_server.sessions.active_sessions == before


@pytest.mark.parametrize("form", ["http://{}", "ws://{}/", "{}", "HTTP://{}"])
def test_an_address_in_each_of_its_forms(form: str) -> None:
    answer: dict[str, dict[str, str] | None] = {"action": {}, "observation": {}, "state": {}, "reset_observation": None}
    with saying(200, json.dumps(answer)) as (host, asked):
        assert fetch_schemas(form.format(host)) == {"action": {}, "observation": {}, "state": {}}
        client = GenericEnvClient(base_url=form.format(host), headers={"X-Token": "secret"})
        client.sync().schemas()
    assert asked == ["/schema None", "/schema secret"]


@pytest.mark.parametrize(
    ("status", "body"), [(404, ""), (200, "no JSON"), (200, "[]"), (200, '{"action": {}}'), (500, "{}")]
)
def test_a_server_that_has_no_schemas(status: int, body: str) -> None:
    with (
        saying(status, body) as (host, _),
        pytest.raises(ConnectionFailedError, match=f"schemas at http://{host}/schema"),
    ):
        fetch_schemas(host)


def test_a_server_that_does_not_answer_is_waited_for_as_long_as_the_client_says() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = GenericEnvClient(base_url=address, connect_timeout_s=0.1, message_timeout_s=0.1)
        begun_s = time.monotonic()
        with pytest.raises(ConnectionFailedError, match="timed out"):
            client.sync().schemas()
        assert time.monotonic() - begun_s < 9


def test_no_server() -> None:
    with pytest.raises(ConnectionFailedError, match=r"schemas at http://127\.0\.0\.1:1/schema, but: "):
        fetch_schemas("http://127.0.0.1:1")


@pytest.mark.parametrize("address", ["file:///etc", "ftp://host"])
def test_an_address_of_another_kind(address: str) -> None:
    with pytest.raises(ConfigurationError, match="looks like http://host:port, but got"):
        fetch_schemas(address)
