"""What a client does with the address of a fleet, which sends it on to one server or another."""

import asyncio
import traceback
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import WebSocketRoute
from starlette.types import Receive, Scope, Send
from tests.chaos.environments import ChainEnvironment
from tests.support.servers import RunningServer, eventually

from openenv import GenericEnvClient
from openenv.core.env_server.access.guard import answer_handshake
from openenv.core.env_server.app import create_app
from openenv.core.exceptions import ConnectionFailedError, ServerCapacityError, ServerUnauthorizedError
from openenv.core.providers.base import RuntimeProvider

TOKEN = "sesame"


class Asked(NamedTuple):
    """What a client has said in a handshake."""

    session: str | None
    sessions: str | None
    authorization: str | None


class Gateway:
    """Answers handshakes with what it is told to, in turn; the last answer again and again."""

    def __init__(self) -> None:
        self.answers: list[Response] = []
        self.asked: list[Asked] = []

    def sends_to(self, *urls_and_sessions: tuple[str, int | None]) -> None:
        self.answers = [redirect(url, sessions) for url, sessions in urls_and_sessions]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        names = ("x-openenv-session", "x-openenv-sessions", "authorization")
        self.asked.append(Asked(*(headers.get(name) for name in names)))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await answer_handshake(answer, scope, receive, send)


def redirect(url: str, sessions: int | None) -> Response:
    headers = {} if sessions is None else {"X-OpenEnv-Sessions": str(sessions)}
    return RedirectResponse(f"{url.replace('http', 'ws')}/ws", 307, headers)


class Fleet(NamedTuple):
    """A gateway and its address."""

    gateway: Gateway
    url: str


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    gateway = Gateway()
    app = FastAPI()
    app.router.routes.append(WebSocketRoute("/ws", gateway))
    with RunningServer(app) as server:
        yield Fleet(gateway, server.url)


@contextmanager
def servers(*places: int, **settings: Any) -> Iterator[list[RunningServer]]:
    """Servers with so many places each."""
    running = [
        RunningServer(create_app(ChainEnvironment, max_concurrent_envs=count, token=TOKEN, **settings)).start()
        for count in places
    ]
    try:
        yield running
    finally:
        for server in running:
            server.stop()


@asynccontextmanager
async def client(fleet: Fleet, **settings: Any) -> AsyncIterator[GenericEnvClient]:
    async with GenericEnvClient(base_url=fleet.url, token=TOKEN, **settings) as env:
        yield env


async def test_a_session_is_opened_where_the_fleet_says_with_the_clients_token(fleet: Fleet) -> None:
    with servers(4, 4) as (first, second):
        fleet.gateway.sends_to((second.url, 1))
        async with client(fleet) as env:
            await env.reset(seed=1)
            assert (first.sessions.active_sessions, second.sessions.active_sessions) == (0, 1)
    assert fleet.gateway.asked == [Asked(None, None, f"Bearer {TOKEN}")]


async def test_the_token_goes_to_the_server_that_the_fleet_names(fleet: Fleet) -> None:
    with servers(4) as (server,):
        fleet.gateway.sends_to((server.url, 1))
        with pytest.raises(ServerUnauthorizedError):  # also on loopback, another token than the server's is refused
            await GenericEnvClient(base_url=fleet.url, token="another").reset()


async def test_credentials_do_not_follow_a_redirect_of_anybody_else(fleet: Fleet) -> None:
    with servers(4) as (server,):
        fleet.gateway.sends_to((server.url, None))
        for headers in ({}, {"Authorization": "Bearer of-a-proxy"}):
            async with GenericEnvClient(base_url=fleet.url, token="another", headers=headers) as env:
                assert (await env.reset(seed=1)).observation["steps"] == 0  # followed, without the wrong token


class ProxiedServer(RuntimeProvider):
    """A provider of a server behind a proxy that wants a header."""

    def __init__(self, url: str) -> None:
        self._url = url

    @property
    def headers(self) -> Mapping[str, str]:
        """What the proxy wants."""
        return {"X-Sandbox-Token": "secret", "Authorization": "Bearer secret"}

    def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
        """Say where it runs."""
        return self._url

    def stop(self) -> None:
        """Leave it running."""

    def wait_for_ready(self, timeout_s: float = 60.0) -> None:
        """Return at once."""


@pytest.mark.parametrize("sessions", [1, None])
async def test_headers_of_a_provider_go_to_no_other_origin(fleet: Fleet, sessions: int | None) -> None:
    elsewhere = Gateway()
    app = FastAPI()
    app.router.routes.append(WebSocketRoute("/ws", elsewhere))
    with RunningServer(app) as other:
        elsewhere.sends_to((fleet.url, 1))
        fleet.gateway.sends_to((other.url, sessions))
        with pytest.raises(ConnectionFailedError, match=f"{fleet.url} sends .* to {other.url}, and") as caught:
            await GenericEnvClient(provider=ProxiedServer(fleet.url)).reset()
        assert "secret" not in "".join(traceback.format_exception(caught.value))
    assert [asked.authorization for asked in fleet.gateway.asked] == ["Bearer secret"]
    assert elsewhere.asked == []


async def test_headers_of_a_provider_follow_a_redirect_to_the_same_origin(fleet: Fleet) -> None:
    fleet.gateway.answers = [redirect(fleet.url, None), JSONResponse({"detail": "here"}, 503)]
    with pytest.raises(ConnectionFailedError, match="503"):
        await GenericEnvClient(provider=ProxiedServer(fleet.url)).reset()
    assert [asked.authorization for asked in fleet.gateway.asked] == ["Bearer secret"] * 2


async def test_a_vector_goes_where_there_is_room_and_asks_no_more_than_it_must(fleet: Fleet) -> None:
    with servers(4, 8) as (first, second):
        fleet.gateway.sends_to((first.url, 1), (first.url, 3), (second.url, 6), (second.url, 0))
        async with client(fleet) as env:
            games = await env.vector(9)
            assert (first.sessions.active_sessions, second.sessions.active_sessions) == (3, 6)
            assert first.connections + second.connections == 2
            results = await games.reset(seeds=range(9))
            assert not [result for result in results if isinstance(result, Exception)]
    assert [asked.sessions for asked in fleet.gateway.asked] == [None, None, "6"]


async def test_another_server_is_tried_where_one_has_no_place_after_all(fleet: Fleet) -> None:
    with servers(1, 4) as (full, free):
        holder = full.v1({"Authorization": f"Bearer {TOKEN}"})
        holder.open()
        fleet.gateway.sends_to((full.url, 1), (free.url, 1))
        async with client(fleet) as env:
            await env.reset()
            assert free.sessions.active_sessions == 1
        holder.close()


async def test_a_fleet_that_says_it_is_full_is_believed(fleet: Fleet) -> None:
    with servers(1) as (server,):
        fleet.gateway.sends_to((server.url, 1), (server.url, 0))
        async with client(fleet) as env:
            await env.reset()
            with pytest.raises(ServerCapacityError):
                await GenericEnvClient(base_url=fleet.url, token=TOKEN).reset()
    assert len(fleet.gateway.asked) == 2


async def test_who_waits_in_line_gets_a_place_that_comes_free(fleet: Fleet) -> None:
    with servers(1) as (server,):
        fleet.gateway.sends_to((server.url, 1), (server.url, 0))
        patient = GenericEnvClient(base_url=fleet.url, token=TOKEN, capacity_wait_s=60.0)
        async with client(fleet) as env:
            await env.reset()
            waiting = asyncio.create_task(patient.reset(seed=1))
            await asyncio.to_thread(eventually, lambda: len(fleet.gateway.asked) == 2, "it asks")
            await env.disconnect()
            assert (await waiting).observation["steps"] == 0
        await patient.close()


async def test_a_server_that_has_just_gone_is_not_the_last_word(fleet: Fleet) -> None:
    with servers(4, 4) as (gone, here):
        gone.stop()
        fleet.gateway.sends_to((gone.url, 1), (here.url, 1))
        async with client(fleet) as env:
            await env.reset()
            assert here.sessions.active_sessions == 1


async def test_addresses_that_lead_in_circles(fleet: Fleet) -> None:
    fleet.gateway.sends_to((fleet.url, 1))
    with pytest.raises(ConnectionFailedError, match="leads from one address to the next"):
        await GenericEnvClient(base_url=fleet.url, connect_timeout_s=5).reset()  # for as long it looks again


async def test_a_fleet_without_servers_says_why(fleet: Fleet) -> None:
    fleet.gateway.answers = [JSONResponse({"detail": "No server of this fleet takes clients."}, 503)]
    with pytest.raises(ConnectionFailedError, match="503"):
        await GenericEnvClient(base_url=fleet.url).reset()


async def test_a_lost_connection_is_made_again_to_the_same_server(fleet: Fleet) -> None:
    with servers(4, 4) as (first, second):
        fleet.gateway.sends_to((first.url, 1), (second.url, 1))
        async with client(fleet) as env:
            await env.reset(seed=1)
            link: Any = env._client_session
            link.connection.transport.abort()
            assert (await env.step({"amount": 1})).observation["steps"] == 1
            assert second.sessions.active_sessions == 0
    assert len(fleet.gateway.asked) == 1


async def test_sessions_move_to_another_server_when_theirs_has_gone(fleet: Fleet, tmp_path: Path) -> None:
    with servers(8, 8, journal=tmp_path / "journal") as (first, second):
        fleet.gateway.sends_to((first.url, 1), (first.url, 8), (second.url, 0))
        async with client(fleet) as env:
            games = await env.vector(5)
            await games.reset(seeds=range(5))
            await games.step([{"amount": seed} for seed in range(5)])
            await asyncio.to_thread(first.stop)
            results = await games.step([{"amount": seed} for seed in range(5)])
            observed: list[Any] = [getattr(result, "observation", result) for result in results]
            assert [observation["steps"] for observation in observed] == [2] * 5
            assert second.sessions.active_sessions == 5
    last = fleet.gateway.asked[-1]
    assert (last.sessions, last.authorization) == ("5", f"Bearer {TOKEN}")
    assert last.session is not None
