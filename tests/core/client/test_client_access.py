"""How a client shows that it may connect, and how it waits for a place."""

import asyncio
import gc
import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.servers import answering
from tests.support.vectors import shown, total
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection

import openenv
from openenv.core.client.generic import GenericEnvClient
from openenv.core.client.transport.connection import Endpoint
from openenv.core.client.transport.pool import open_session
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    OpenEnvError,
    ServerCapacityError,
    ServerUnauthorizedError,
)

SECRET = "s3cret-of-this-test"
REFUSAL = json.dumps({"detail": "This server asks for a token.", "code": "UNAUTHORIZED"})


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENENV_TOKEN", raising=False)


class Gatekeeper:
    """Answers every handshake, and request for schemas, with a status and a body; notes who came with what."""

    def __init__(self, status: int = 401, body: str = REFUSAL) -> None:
        self.status = status
        self.body = body
        self.shown: list[list[str]] = []
        self.paths: list[str] = []

    def refuse(self, connection: ServerConnection, request: Request) -> Response:
        self.paths.append(request.path)
        self.shown.append([*request.headers.get_all("Authorization"), *request.headers.get_all("X-API-Key")])
        return connection.respond(HTTPStatus(self.status), self.body)


@contextmanager
def kept(gatekeeper: Gatekeeper) -> Iterator[str]:
    with answering(lambda _connection: None, process_request=gatekeeper.refuse) as url:
        yield url


def every_word_of(error: BaseException | None) -> str:
    """What an error, and those that it came from, show anywhere."""
    words = ""
    while error is not None:
        words += f"{error} {error!r} {vars(error)!r}"
        error = error.__cause__ or error.__context__
    return words


@pytest.mark.parametrize("end", ["/ws", "/web/", "/?theme=dark", "/web?theme=dark#board", "?theme=dark"])
def test_an_address_that_was_copied_from_elsewhere(serve: Serve, end: str) -> None:
    server = serve()
    with GenericEnvClient(base_url=f"{server.url}{end}").sync() as client:
        assert client.reset().observation["total"] == 0
        assert client.schemas()["action"]["title"] == "Add"
    with openenv.make(f"{server.url}{end}").sync() as client:
        assert client.reset().observation["total"] == 0


def test_a_query_stands_in_no_error() -> None:
    gatekeeper = Gatekeeper(status=500, body="{}")
    with kept(gatekeeper) as url:
        clients = [GenericEnvClient(base_url=f"{at}?key={SECRET}") for at in (url, "http://127.0.0.1:1")]
        calls = [getattr(client.sync(), name) for client in clients for name in ("schemas", "tasks", "reset")]
        for call in calls:
            with pytest.raises(OpenEnvError) as failed:
                call()
            assert SECRET not in str(failed.value)
            assert "127.0.0.1" in str(failed.value)


def test_a_query_goes_with_each_request() -> None:
    gatekeeper = Gatekeeper()
    with kept(gatekeeper) as url:
        client = GenericEnvClient(base_url=f"{url}/web?key=3")
        for call in (client.sync().schemas, client.sync().tasks, client.sync().reset):
            with pytest.raises(ServerUnauthorizedError):
                call()
    assert gatekeeper.paths == ["/schema?key=3", "/list_environments?key=3", "/ws?key=3"]


class TestToken:
    @pytest.mark.parametrize(
        ("given", "environment", "sent"),
        [
            ({"token": SECRET}, None, [f"Bearer {SECRET}"]),
            ({}, SECRET, [f"Bearer {SECRET}"]),
            ({"token": SECRET}, "another", [f"Bearer {SECRET}"]),
            ({"token": ""}, SECRET, []),
            ({}, None, []),
            ({}, "", []),
            ({"token": SECRET, "headers": {"Authorization": "Basic eA=="}}, None, ["Basic eA==", SECRET]),
            ({"token": SECRET, "headers": {"authorization": "Basic eA=="}}, None, ["Basic eA==", SECRET]),
            ({"headers": {"Authorization": "Basic eA=="}}, SECRET, ["Basic eA=="]),
            ({"token": SECRET, "headers": {"Authorization": "a", "x-api-key": "b"}}, None, ["a", "b"]),
            ({"token": SECRET, "headers": {"X-Other": "1"}}, None, [f"Bearer {SECRET}"]),
        ],
    )
    def test_what_is_sent(
        self, monkeypatch: pytest.MonkeyPatch, given: Any, environment: str | None, sent: list[str]
    ) -> None:
        if environment is not None:
            monkeypatch.setenv("OPENENV_TOKEN", environment)
        gatekeeper = Gatekeeper()
        with kept(gatekeeper) as url:
            client = GenericEnvClient(base_url=url, **given)
            for ask in (client.sync().connect, client.sync().schemas):
                with pytest.raises(ServerUnauthorizedError, match=r"This server asks for a token\.") as refused:
                    ask()
                assert refused.value.code == "UNAUTHORIZED"
        assert gatekeeper.shown == [sent, sent]

    @pytest.mark.parametrize("token", ["a b", "ä", "a\r\nX-Evil: 1", "\x00", " ", "a\u2028"])
    def test_one_that_fits_no_header_is_refused_and_not_shown(self, token: str) -> None:
        with pytest.raises(ConfigurationError, match="OPENENV_TOKEN") as refused:
            GenericEnvClient(base_url="http://127.0.0.1:1", token=token)
        assert len(token) == 1 or token not in every_word_of(refused.value)

    @pytest.mark.parametrize("status", [401, 403, 404, 503])
    def test_it_is_shown_nowhere(self, caplog: pytest.LogCaptureFixture, status: int) -> None:
        caplog.set_level(logging.DEBUG)
        logging.getLogger("websockets").setLevel(logging.DEBUG)
        try:
            with kept(Gatekeeper(status)) as url:
                client = GenericEnvClient(base_url=url, token=SECRET)
                for ask in (client.sync().connect, client.sync().schemas):
                    with pytest.raises(OpenEnvError) as refused:
                        ask()
                    assert SECRET not in every_word_of(refused.value)
        finally:
            logging.getLogger("websockets").setLevel(logging.NOTSET)
        own = [record.getMessage() for record in caplog.records if not record.name.startswith("websockets.server")]
        assert any("Authorization" in line for line in own)
        assert not any(SECRET in line for line in own)
        assert SECRET not in repr(client) + str(client) + repr(client.sync())

    async def test_settings_do_not_show_it(self) -> None:
        settings = await GenericEnvClient(base_url="http://127.0.0.1:1", token=SECRET)._endpoint()
        assert isinstance(settings, Endpoint)
        assert SECRET not in repr(settings)

    @pytest.mark.parametrize("body", ["", "no json", "[1]", '{"detail": 3}', '{"code": "UNAUTHORIZED"}', "null"])
    def test_a_server_that_does_not_say_why(self, body: str) -> None:
        with kept(Gatekeeper(401, body)) as url:
            client = GenericEnvClient(base_url=url).sync()
            for ask in (client.connect, client.schemas):
                with pytest.raises(ServerUnauthorizedError, match="OPENENV_TOKEN"):
                    ask()

    def test_a_403_says_what_the_server_says(self) -> None:
        with kept(Gatekeeper(403, json.dumps({"detail": "Host evil.example is not served here."}))) as url:
            client = GenericEnvClient(base_url=url).sync()
            for ask in (client.connect, client.schemas):
                with pytest.raises(ConnectionFailedError, match=r"Host evil\.example is not served here\."):
                    ask()

    async def test_all_who_connect_together_are_told(self) -> None:
        with kept(Gatekeeper()) as url:
            clients = [GenericEnvClient(base_url=url) for _ in range(5)]
            results = await asyncio.gather(*(client.reset() for client in clients), return_exceptions=True)
            assert [type(result) for result in results] == [ServerUnauthorizedError] * 5
            assert {str(result) for result in results if isinstance(result, Exception)} == {
                "Server error: This server asks for a token. (code: UNAUTHORIZED)"
            }
            with pytest.raises(ServerUnauthorizedError):
                await clients[0].vector(3)
        gc.collect()


class TestWaitingForAPlace:
    @pytest.mark.parametrize("wait", [-1, float("nan"), float("inf"), -0.001])
    def test_the_time_is_a_number_of_seconds(self, wait: float) -> None:
        with pytest.raises(ConfigurationError, match="capacity_wait_s"):
            GenericEnvClient(base_url="http://127.0.0.1:1", capacity_wait_s=wait)

    async def test_who_waits_gets_the_place_of_who_leaves(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        first = GenericEnvClient(base_url=server.url)
        await first.reset()
        with pytest.raises(ServerCapacityError):
            await GenericEnvClient(base_url=server.url).reset()
        # Longer than an answer may take: the wait comes on top.
        patient = GenericEnvClient(base_url=server.url, capacity_wait_s=60, message_timeout_s=0.5)
        waiting = asyncio.ensure_future(patient.reset())
        await asyncio.sleep(0.8)
        assert not waiting.done()
        await first.close()
        assert total(await waiting) == 0
        await patient.close()

    async def test_in_vain(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        async with GenericEnvClient(base_url=server.url) as first:
            await first.reset()
            begun = time.monotonic()
            with pytest.raises(ServerCapacityError):
                await GenericEnvClient(base_url=server.url, capacity_wait_s=0.3).reset()
            assert 0.25 < time.monotonic() - begun < 20

    async def test_the_slots_of_a_vector_wait_too(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=4)
        first = GenericEnvClient(base_url=server.url)
        await (await first.vector(2)).reset()
        async with GenericEnvClient(base_url=server.url, capacity_wait_s=60) as patient:
            opening = asyncio.ensure_future(patient.vector(4))
            await asyncio.to_thread(server.wait_for_sessions, 4)
            await first.close()
            assert shown(await (await opening).reset()) == [0] * 4

    async def test_it_is_asked_for_only_where_it_is_wanted(self) -> None:
        seen: list[dict[str, Any]] = []
        with answering(noting(seen), subprotocols=["openenv.v1"]) as url:
            settings = await GenericEnvClient(base_url=url)._endpoint()
            for wait_s in (0.0, 2.5):
                await (await open_session(settings, 5, wait_s)).close()
        opened = [message["data"] for message in seen if message["type"] == "open"]
        assert ["wait_s" in data for data in opened] == [False, True]
        assert opened[1]["wait_s"] == 2.5


def noting(seen: list[dict[str, Any]]) -> Callable[[ServerConnection], None]:
    def play(connection: ServerConnection) -> None:
        for frame in connection:
            message = json.loads(frame)
            seen.append(message)
            kind = "opened" if message["type"] == "open" else "closed"
            connection.send(json.dumps({"type": kind, "id": message["id"], "session": "s", "data": {}}))

    return play
