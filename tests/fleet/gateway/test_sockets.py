"""WebSockets of pages that a fleet hands on: their messages, how they are refused, and how they end."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.types import Receive, Scope, Send
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer, V1Wire, eventually
from websockets.exceptions import ConnectionClosed, InvalidStatus

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.providers.resources import Resources
from openenv.fleet.gateway.sockets import SocketForwarding
from openenv.fleet.plan import ServerPlan
from openenv.fleet.replica import Replica
from openenv.fleet.replica_server import Started

TOKEN = "sesame-open-wide"
PAGE = {"Origin": "http://127.0.0.1"}
# What a page sends beside the protocol that it speaks.
TOKEN_PROTOCOL = "openenv.token.c2VzYW1lLW9wZW4td2lkZQ"


class Gateway:
    """Hands every socket on to one server.

    Attributes:
        token: What it shows to the server.
    """

    def __init__(self, server: RunningServer) -> None:
        self.token: str | None = TOKEN
        self.replica = Replica(ServerPlan("counter", "127.0.0.1", {}, Resources()), 1)
        self.replica.started = Started("127.0.0.1", server.port, 1, "127.0.0.1", 1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand one socket on."""
        await SocketForwarding(self.token, None).hand_on(self.replica, scope, receive, send)


@pytest.fixture
def server() -> Iterator[RunningServer]:
    app = create_fastapi_app(CounterEnvironment, Add, Total, token=TOKEN, max_concurrent_envs=4, resume_window_s=60)
    with RunningServer(app) as server:
        yield server


@pytest.fixture
def gateway(server: RunningServer) -> Gateway:
    return Gateway(server)


@pytest.fixture
def address(gateway: Gateway) -> Iterator[str]:
    """Address of the gateway's sockets."""
    app: Any = Starlette(routes=[WebSocketRoute("/{path:path}", gateway)])
    with RunningServer(app) as running:
        yield running.url.replace("http", "ws", 1)


def test_messages_go_both_ways_however_long(server: RunningServer, address: str) -> None:
    with V1Wire(f"{address}/ws?some=thing", PAGE) as wire:
        session = wire.open()
        wire.do("reset", session)
        assert wire.do("step", session, amount=3)["data"]["observation"]["total"] == 3
        refused = wire.do("step", session, amount="9" * 1_000_000)
        assert refused["type"] == "error"
        assert server.sessions.active_sessions == 1


def test_a_client_that_says_goodbye_ends_its_sessions(server: RunningServer, address: str) -> None:
    with V1Wire(f"{address}/ws", PAGE) as wire:
        wire.do("reset", wire.open())
        server.wait_for_sessions(1)
    server.wait_for_sessions(0)


def test_a_client_that_was_cut_off_comes_back_to_its_sessions(server: RunningServer, address: str) -> None:
    wire = V1Wire(f"{address}/ws", PAGE)
    session, token = wire.open_with_token()
    wire.do("reset", session)
    wire.do("step", session, amount=2)
    wire.cut()
    with V1Wire(f"{address}/ws?session={session[:13]}", PAGE) as again:
        assert again.attach(session, token, answered=2)["type"] == "attached"
        assert again.do("step", session, amount=2)["data"]["observation"]["total"] == 4


def test_a_server_that_ends_closes_the_socket_with_its_own_code(server: RunningServer, address: str) -> None:
    with V1Wire(f"{address}/ws", PAGE) as wire:
        wire.do("reset", wire.open())
        server.stop()
        with pytest.raises(ConnectionClosed) as closed:
            wire.receive()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012


def test_what_the_server_refuses_is_refused_in_the_same_way(gateway: Gateway, address: str) -> None:
    gateway.token = "another"
    with pytest.raises(InvalidStatus) as refused:
        V1Wire(f"{address}/ws", PAGE)
    assert refused.value.response.status_code == 401
    assert b"Expected this server's token" in (refused.value.response.body or b"")


def test_a_server_that_is_gone_is_answered_for(server: RunningServer, address: str) -> None:
    server.stop()
    with pytest.raises(InvalidStatus) as refused:
        V1Wire(f"{address}/ws", PAGE)
    assert refused.value.response.status_code == 503


def test_a_token_that_a_page_sends_as_a_subprotocol_stays_at_the_gateway(server: RunningServer, address: str) -> None:
    headers = {
        **PAGE,
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": f"openenv.v1, {TOKEN_PROTOCOL}",
    }
    url = address.replace("ws", "http", 1)
    with httpx.Client(trust_env=False, timeout=60) as http, http.stream("GET", f"{url}/ws", headers=headers) as answer:
        assert answer.status_code == 101
        assert answer.headers["sec-websocket-protocol"] == "openenv.v1"
    eventually(lambda: server.connections == 0, "the server's socket has gone with it")
