"""A client that reads no more keeps neither its session nor its socket."""

import json
import socket
from contextlib import suppress
from typing import Any

import pytest
from tests.chaos.hostility import HANDSHAKE
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer, eventually

from openenv.core.env_server.app import create_fastapi_app

# A second is enough to fill the buffers between server and client.
_PINGS: dict[str, Any] = {"ws_ping_interval": 2.0, "ws_ping_timeout": 0.5}
_BUFFER_BYTES = 4096


def frame(message: dict[str, Any]) -> bytes:
    """Write a frame whose mask is 0."""
    payload = json.dumps(message).encode()
    assert len(payload) < 126
    return bytes([0x81, 0x80 | len(payload), 0, 0, 0, 0]) + payload


class DeafClient:
    """Sends, and reads nothing, neither answers nor pings."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket()
        for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self.socket.setsockopt(socket.SOL_SOCKET, buffer, _BUFFER_BYTES)
        self.socket.connect(("127.0.0.1", port))
        self.socket.sendall(HANDSHAKE)
        while b"\r\n\r\n" not in self.socket.recv(4096, socket.MSG_PEEK):
            pass

    def ask_until_nothing_moves(self) -> None:
        """Ask until the server takes no more, because what it has answered was not read."""
        self.socket.settimeout(0.5)
        with suppress(TimeoutError, ConnectionError):  # the latter if it has been let go by then
            while True:
                self.socket.sendall(frame({"type": "no such type"}) * 10)


@pytest.fixture
def server() -> Any:
    app = create_fastapi_app(CounterEnvironment, Add, Total, max_concurrent_envs=2)
    server = RunningServer(app, **_PINGS)
    server.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
    with server:
        yield server


def test_a_client_that_answers_no_ping_is_let_go(server: RunningServer) -> None:
    client = DeafClient(server.port)
    server.wait_for_sessions(1)
    client.ask_until_nothing_moves()
    server.wait_for_sessions(0)
    eventually(lambda: server.connections == 0, "its socket is closed")
    client.socket.close()


def test_a_client_that_reads_goes_on(server: RunningServer) -> None:
    with server.wire() as wire:
        wire.reset()
        assert [wire.step(amount=1)["data"]["observation"]["total"] for _ in range(3)] == [1, 2, 3]
