"""WebSockets of pages that a fleet forwards: their messages, how they are refused, and how they end."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer, V1Wire, Wire, eventually
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from openenv.core.env_server.access.guard import guarded
from openenv.core.env_server.access.policy import AccessPolicy
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.settings import ServerConfig
from openenv.core.providers.resources import Resources
from openenv.fleet.gateway.sockets import SocketForwarding
from openenv.fleet.plan import ServerPlan
from openenv.fleet.replica import Replica
from openenv.fleet.replica_server import StartedReplica

TOKEN = "sesame-open-wide"
PAGE = {"Origin": "http://127.0.0.1"}
# What a page sends beside the protocol that it speaks.
TOKEN_PROTOCOL = "openenv.token.c2VzYW1lLW9wZW4td2lkZQ"


class Gateway:
    """Forwards every socket to one server.

    Attributes:
        token: What it shows to the server.
    """

    def __init__(self, server: RunningServer) -> None:
        self.token: str | None = TOKEN
        self.replica = Replica(ServerPlan("counter", "127.0.0.1", {}, Resources()), 1)
        self.replica.started = StartedReplica("127.0.0.1", server.port, 1, "127.0.0.1", 1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward one socket."""
        await SocketForwarding(self.token, None).forward(self.replica, scope, receive, send)


class Closing:
    """Server that closes each socket with a code and a reason of its own.

    Attributes:
        offered: Subprotocols that each client has offered.
    """

    def __init__(self) -> None:
        self.offered: list[list[str]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Close a socket."""
        self.offered.append(scope["subprotocols"])
        await receive()
        await send({"type": "websocket.accept", "subprotocol": scope["subprotocols"][0]})
        await send({"type": "websocket.close", "code": 4001, "reason": "enough of it"})


class DisconnectedClient:
    """Client of the gateway that has closed its socket, and to which nothing can be sent any more.

    Args:
        request: What it has sent before.

    Attributes:
        unsent: The answer that could not be sent.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        self._messages: list[Message] = [
            {"type": "websocket.connect"},
            {"type": "websocket.receive", "text": json.dumps(request)},
        ]
        self._answered = asyncio.Event()
        self.unsent = ""

    async def receive(self) -> Message:
        """Return what it has sent; once it should have got an answer, that it has closed its socket."""
        if self._messages:
            return self._messages.pop(0)
        await self._answered.wait()
        return {"type": "websocket.disconnect", "code": 1000, "reason": ""}

    async def send(self, message: Message) -> None:
        """Fail for an answer, as ASGI servers do."""
        if message["type"] == "websocket.send":
            self.unsent = str(message)
            self._answered.set()
            raise OSError("the client has disconnected")


def serving(app: ASGIApp) -> RunningServer:
    """Serve the WebSockets of all paths."""
    served: Any = Starlette(routes=[WebSocketRoute("/{path:path}", app)])
    return RunningServer(served)


@pytest.fixture
def server() -> Iterator[RunningServer]:
    app = create_fastapi_app(CounterEnvironment, Add, Total, token=TOKEN, max_concurrent_envs=4, resume_window_s=600)
    with RunningServer(app) as server:
        yield server


@pytest.fixture
def gateway(server: RunningServer) -> Gateway:
    return Gateway(server)


@pytest.fixture
def address(gateway: Gateway) -> Iterator[str]:
    """Address of the gateway's sockets."""
    with serving(gateway) as running:
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


async def test_a_goodbye_reaches_the_server_though_an_answer_can_not_be_sent(
    server: RunningServer, gateway: Gateway
) -> None:
    scope = {"type": "websocket", "path": "/ws", "query_string": b"", "headers": [], "subprotocols": ["openenv.v1"]}
    client = DisconnectedClient({"type": "open", "id": 1})
    await gateway(scope, client.receive, client.send)
    assert "opened" in client.unsent
    await asyncio.to_thread(server.wait_for_sessions, 0)


def test_a_client_that_was_cut_off_comes_back_to_its_sessions(server: RunningServer, address: str) -> None:
    wire = V1Wire(f"{address}/ws", PAGE)
    session, token = wire.open_with_token()
    wire.do("reset", session)
    wire.do("step", session, amount=2)
    wire.cut()
    eventually(lambda: server.connections == 0, "the server's socket has gone with it")
    with V1Wire(f"{address}/ws?session={session[:13]}", PAGE) as again:
        assert again.attach(session, token, answered=2)["type"] == "attached"
        assert again.do("step", session, amount=2)["data"]["observation"]["total"] == 4


def test_the_code_and_the_reason_with_which_a_server_closes_reach_the_page() -> None:
    with serving(Closing()) as server, serving(Gateway(server)) as running, running.v1(PAGE) as wire:
        with pytest.raises(ConnectionClosed) as closed:
            wire.receive()
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4001, "enough of it")


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


def test_a_token_that_a_page_sends_as_a_subprotocol_stays_at_the_gateway() -> None:
    closing, offered = Closing(), [Subprotocol("openenv.v1"), Subprotocol(TOKEN_PROTOCOL)]
    with serving(closing) as server, serving(Gateway(server)) as running:
        with Wire(running.url.replace("http", "ws", 1), PAGE, offered) as wire:
            assert wire.socket.subprotocol == "openenv.v1"
        assert closing.offered == [["openenv.v1"]]


def test_a_named_token_of_a_page_goes_on_to_the_server(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(f'[trainer]\ntoken = "{TOKEN}"\nrole = "play"\n')
    config = ServerConfig(tokens=str(file), token="of-the-fleet", auth="always")
    app = create_fastapi_app(CounterEnvironment, Add, Total, tokens=file, token="of-the-fleet", auth="always")
    offered = [Subprotocol("openenv.v1"), Subprotocol(TOKEN_PROTOCOL)]
    with RunningServer(app) as server:
        gateway = Gateway(server)
        gateway.token = "of-the-fleet"
        with serving(guarded(gateway, AccessPolicy.of(config))) as running:
            for headers, protocols, client in (
                ({"Authorization": f"Bearer {TOKEN}"}, offered[:1], "token:trainer"),
                ({}, offered, "token:trainer"),
                ({"Authorization": "Bearer of-the-fleet"}, offered[:1], "loopback"),
            ):
                with Wire(f"ws{running.url[4:]}/ws", headers, protocols) as wire:
                    assert wire.ask({"type": "open", "id": 1, "data": {}})["type"] == "opened"
                    assert [session.client for session in server.app.state.openenv_sessions] == [client]
                server.wait_for_sessions(0)
