"""What one client does to the server costs the others little: each attack beside a client that asks for ``/health``."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Any, Self
from urllib.request import urlopen

import pytest
from tests.chaos.hostility import HANDSHAKE
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer, eventually
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from openenv.core.env_server.app import create_fastapi_app

# What another client may wait for /health while an attack goes on. Idle, it takes milliseconds; a machine that does
# other work may take a second. Before these attacks were bounded they took from 1.3 s to minutes.
_HEALTHY_WITHIN_S = 5.0


class Bystander:
    """Asks for ``/health`` all the time, and notes how long the slowest answer took."""

    def __init__(self, server: RunningServer) -> None:
        self._url = f"{server.url}/health"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.slowest_s = 0.0
        self.answers = 0

    def _ask(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            with urlopen(self._url, timeout=120) as answer:
                assert json.load(answer) == {"status": "healthy"}
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            self.answers += 1
            self._over.wait(0.02)

    def assert_served(self) -> None:
        """Fail if it had to wait for long."""
        assert self.slowest_s < _HEALTHY_WITHIN_S

    def __enter__(self) -> Self:
        self._thread.start()
        eventually(lambda: self.answers > 0, "the first answer")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(120)


@contextmanager
def serving(max_sessions: int = 4, uvicorn: dict[str, Any] | None = None, **settings: Any) -> Iterator[RunningServer]:
    app = create_fastapi_app(CounterEnvironment, Add, Total, max_concurrent_envs=max_sessions, **settings)
    with RunningServer(app, **(uvicorn or {})) as server:
        yield server


class RawSocket:
    """A WebSocket whose client writes frames byte by byte, and reads only when it is asked to."""

    def __init__(self, server: RunningServer) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(120)
        self.socket.connect(("127.0.0.1", server.port))
        self.socket.sendall(HANDSHAKE)
        read_head(self.socket)

    def send(self, data: bytes) -> None:
        """Send everything, or as much as the server takes before it closes the connection."""
        with suppress(ConnectionError):
            self.socket.sendall(data)

    def receive_to_the_end(self) -> bytes:
        received = b""
        with suppress(ConnectionError):
            while data := self.socket.recv(65536):
                received += data
        return received

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket.close()


def read_head(connection: socket.socket) -> bytes:
    """Read up to the end of an HTTP head."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        assert byte, head
        head += byte
    return head


def frame(first: int, payload: bytes = b"") -> bytes:
    """Write a short frame whose mask is 0."""
    assert len(payload) < 126
    return bytes([first, 0x80 | len(payload), 0, 0, 0, 0]) + payload


def opens(count: int, wait_s: float = 600) -> str:
    return json.dumps([{"type": "open", "id": number, "data": {"wait_s": wait_s}} for number in range(count)])


def test_a_client_that_asks_for_very_many_sessions_and_goes_leaves_nothing_behind() -> None:
    with serving() as server, Bystander(server) as bystander:
        attacker = server.v1()
        attacker.send(opens(60_000))
        attacker.cut()
        with server.v1() as other:  # which waits in line with it
            session = other.open(wait_s=60)
            assert other.do("reset", session)["type"] == "observation"
        eventually(lambda: server.app.state.sessions.metrics.waiting == 0, "nobody waits any more")
    bystander.assert_served()


_TEXT_BEGINS, _PART, _LAST_PART, _CLOSE, _PING = 0x01, 0x00, 0x80, 0x88, 0x89


@pytest.mark.parametrize("part", [b"", b" "], ids=["empty", "one byte"])
def test_a_message_in_millions_of_tiny_parts_ends_its_connection(part: bytes) -> None:
    with serving() as server, Bystander(server) as bystander, RawSocket(server) as attacker:
        attacker.send(frame(_TEXT_BEGINS, b" ") + frame(_PART, part) * 3_000_000)
        eventually(lambda: server.sessions.active_sessions == 0, "the connection has ended")
    bystander.assert_served()


def test_a_long_message_in_small_parts_is_read_between_the_requests_of_others() -> None:
    text = b'{"type": "state"}'.ljust(64)
    with serving() as server, Bystander(server) as bystander, RawSocket(server) as client:
        client.send(frame(_TEXT_BEGINS, text) + frame(_PART, b" " * 64) * 100_000)
        client.send(frame(_LAST_PART, b" "))
        assert b'{"type":"state"' in client.socket.recv(65536)
    bystander.assert_served()


def test_a_client_that_pings_and_reads_no_pong_gets_the_last_one() -> None:
    count = 50_000
    with serving() as server, Bystander(server) as bystander, RawSocket(server) as attacker:
        attacker.send(frame(_PING, b"p" * 100) * count + frame(_PING, b"last") + frame(_CLOSE, b"\x03\xe8"))
        eventually(lambda: server.sessions.active_sessions == 0, "it has read everything")
        assert server.unsent_bytes < 1024 * 1024
        received = attacker.receive_to_the_end()
    assert received.endswith(b"\x8a\x04last\x88\x02\x03\xe8")
    assert len(received) < 102 * count
    bystander.assert_served()


async def test_a_client_that_pings_and_reads_gets_every_pong() -> None:
    with serving() as server:
        async with connect(f"ws://127.0.0.1:{server.port}/ws") as client:
            pongs = [await client.ping(f"{number}") for number in range(1000)]
            await asyncio.wait_for(asyncio.gather(*pongs), 60)


_GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
_POST = b"POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
_UNFINISHED = {
    "nothing": b"",
    "half a request line": b"GET /hea",
    "half a header": _GET + b"X: ",
    "half a handshake": HANDSHAKE[:-2],
    "a blank line": b"\r\n",
    "no body": _POST,
    "half a body": _POST + b'{"seed": 1',
    "half a body in chunks": _POST.replace(b"Content-Length: 1000", b"Transfer-Encoding: chunked") + b"1\r\n{\r\n",
    "half a frame": HANDSHAKE + frame(0x81, b"{}")[:-1],
}
_QUICKLY: dict[str, Any] = {
    "header_timeout_s": 0.5,
    "body_timeout_s": 0.5,
    "uvicorn": {"ws_ping_interval": 0.5, "ws_ping_timeout": 0.5},
}


def connected(server: RunningServer, data: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.sendall(data)
    return connection


def test_half_open_connections_are_closed_in_time() -> None:
    with serving(max_sessions=500, **_QUICKLY) as server, ExitStack() as connections:
        for data in 20 * list(_UNFINISHED.values()):
            connections.enter_context(connected(server, data))
        eventually(lambda: server.connections == 0, "all are closed")
        server.wait_for_sessions(0)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("nothing", b""),
        ("half a header", b"Expected the head of the request within 0.5 s (header_timeout_s); it was not received."),
        ("half a body", b"Expected the body of the request within 0.5 s (body_timeout_s); it was not received."),
    ],
)
def test_a_client_that_is_too_slow_is_told_so(kind: str, expected: bytes) -> None:
    with serving(**_QUICKLY) as server, connected(server, _UNFINISHED[kind]) as connection:
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.endswith(expected)
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n" if expected else b"")


def test_a_client_that_drips_is_too_slow() -> None:
    with serving(**_QUICKLY) as server, connected(server, b"") as header, connected(server, _POST) as body:
        eventually(lambda: not takes_a_byte(header), "the one amid a head is closed")
        eventually(lambda: not takes_a_byte(body), "the one amid a body is closed")


def takes_a_byte(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"x")
    except OSError:
        return False
    return True


def test_slow_clients_and_idle_ones_stay() -> None:
    """A body that comes at some pace may take long, and a connection between two requests or frames owes nothing."""
    with serving(**_QUICKLY) as server, server.wire() as idle, server.http() as keeping:
        assert keeping.get("/health").status_code == 200
        idle.reset()
        body = b'{"seed": 1}'.ljust(32 * 1024)
        with connected(server, _POST.replace(b"1000", b"%d" % len(body))) as slow:
            for start in range(0, len(body), 8 * 1024):  # each part grants eight seconds, which a busy machine may need
                slow.sendall(body[start : start + 8 * 1024])
                time.sleep(0.25)
            assert slow.recv(65536).startswith(b"HTTP/1.1 200 OK")
        assert keeping.get("/health").status_code == 200
        assert idle.step(amount=1)["type"] == "observation"


def test_no_time_limits() -> None:
    with serving(header_timeout_s=None, body_timeout_s=None) as server, connected(server, _GET) as connection:
        connection.sendall(b"\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK")


_MANY_VALUES = "[" + "[]," * 1_999_999 + "[]]"


class TestLongMessages:
    """Beside a client that asks for ``/health``: what is read takes a time that others can wait for."""

    def test_a_frame_of_millions_of_values_is_not_read(self) -> None:
        with serving() as server, Bystander(server) as bystander, server.wire() as legacy, server.v1() as wire:
            session = wire.open()
            for sender in (legacy, wire):
                refused = sender.ask(f'{{"type": "step", "id": 1, "session": "{session}", "data": {_MANY_VALUES}}}')
                assert (refused["data"]["code"], refused["data"]["limit"]) == ("TOO_LARGE", 2 * 1024 * 1024)
                assert refused["data"]["message"].startswith("The message has 40000")
            legacy.reset()
            wire.do("reset", session)
        bystander.assert_served()

    @pytest.mark.parametrize("path", ["/reset", "/mcp"])
    def test_nor_is_such_a_body(self, path: str) -> None:
        with serving() as server, Bystander(server) as bystander, server.http() as http:
            refused = http.post(path, content=f'{{"x": {_MANY_VALUES}}}', headers={"Content-Type": "application/json"})
            assert (refused.status_code, refused.json()["code"]) == (413, "TOO_LARGE")
        bystander.assert_served()

    def test_as_many_as_there_may_be(self) -> None:
        with serving(max_message_size_mb=40) as server, server.wire() as wire:
            assert wire.ask(f'{{"type": "reset", "data": {{"x": {_MANY_VALUES}}}}}')["type"] == "observation"

    def test_a_long_string_is_no_matter(self) -> None:
        with serving() as server, Bystander(server) as bystander, server.wire() as wire:
            text = "x" * 15_000_000
            assert wire.reset(x=text)["type"] == "observation"
            assert wire.ask(f'{{"type": "reset", "data": {{"x": "{text}"')["data"]["code"] == "INVALID_JSON"
        bystander.assert_served()


class TestFramesAboveTheLimit:
    """How much of a frame is read follows the limit that was set."""

    def test_a_low_one(self) -> None:
        with serving(max_message_size_mb=1) as server:
            with server.wire() as wire:
                assert wire.ask("x" * 3_500_000)["data"]["code"] == "TOO_LARGE"
            with server.wire() as wire, pytest.raises(ConnectionClosed):  # often before the client could read the code
                wire.ask("x" * 6_000_000)

    def test_a_high_one_of_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENENV_MAX_MESSAGE_SIZE_MB", "60")
        with serving() as server, server.wire() as wire:
            assert wire.reset(x="x" * 55_000_000)["type"] == "observation"
