"""A client that reads no more, or announces more than a server reads, loses its own socket and session only.

A handshake that is refused has an answer.
"""

import json
import socket
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.chaos.hostility import HANDSHAKE
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer, eventually
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.sync.client import connect

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.websocket_frames import PIECE
from openenv.core.wire.names import V1

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


class LongTotal(Total):
    text: str = ""


class LongEnvironment(CounterEnvironment):
    def step(self, action: Add) -> LongTotal:
        return LongTotal(total=1, text="é" * action.amount)


@pytest.mark.parametrize("wire", ["legacy", "v1"])
def test_a_long_answer_is_sent_in_pieces_and_others_are_answered_in_between(wire: str) -> None:
    app = create_fastapi_app(LongEnvironment, Add, LongTotal, max_concurrent_envs=2)
    named: dict[str, Any] = {}
    with (
        RunningServer(app) as server,
        server.wire() as other,
        connect(
            f"ws://127.0.0.1:{server.port}/ws",
            max_size=None,
            max_queue=1,
            compression=None,
            subprotocols=[V1] if wire == "v1" else None,  # type: ignore[list-item]
        ) as socket,
    ):
        other.reset()
        if wire == "v1":
            socket.send(json.dumps({"type": "open", "id": 1}))
            named = {"session": json.loads(socket.recv())["session"], "id": 1}
        socket.send(json.dumps({"type": "reset", **named}))
        socket.recv()
        named |= {"id": 2} if named else {}
        socket.send(json.dumps({"type": "step", "data": {"amount": 16 * PIECE}, **named}))
        pieces: list[str] = []
        for piece in socket.recv_streaming():
            assert isinstance(piece, str)
            if not pieces:
                ponged = socket.ping()
                assert other.step(amount=1)["type"] == "observation"
            pieces.append(piece)
            is_ponged_before_the_end = ponged.is_set()
        assert is_ponged_before_the_end
        assert len(pieces) > 16
        assert max(map(len, pieces)) == PIECE
        answer = json.loads("".join(pieces))
        assert answer["data"]["observation"]["text"] == "é" * 16 * PIECE
        named |= {"id": 3} if named else {}
        socket.send(json.dumps({"type": "state", **named}))
        assert json.loads(socket.recv())["type"] == "state"


# A frame says its length before its payload: 127 stands for a length of eight bytes behind it, and 0x80 for a mask.
FOUR_GIB = b"\xff" + (2**32).to_bytes(8) + bytes(4)
ANNOUNCEMENTS = {
    "text": b"\x81" + FOUR_GIB,
    "bytes": b"\x82" + FOUR_GIB,
    "a part of a text": b"\x01\x81" + bytes(4) + b"[" + b"\x80" + FOUR_GIB,
}


@pytest.mark.parametrize("announcement", list(ANNOUNCEMENTS.values()), ids=list(ANNOUNCEMENTS))
@pytest.mark.parametrize("is_v1", [False, True], ids=["legacy", "v1"])
def test_a_frame_that_announces_4_gib_closes_its_own_socket_only(
    counter_server: RunningServer, announcement: bytes, is_v1: bool
) -> None:
    with counter_server.wire() as other, counter_server.v1() if is_v1 else counter_server.wire() as lying:
        other.reset()
        lying.ask({"type": "open", "id": 1} if is_v1 else {"type": "reset"})
        counter_server.wait_for_sessions(2)
        lying.socket.socket.sendall(announcement)  # and nothing of what it announces
        with pytest.raises(ConnectionClosed) as ended:
            lying.receive()
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == CloseCode.MESSAGE_TOO_BIG
        assert "limit" in ended.value.rcvd.reason
        counter_server.wait_for_sessions(1)
        assert other.step(amount=1)["data"]["observation"]["total"] == 1
    counter_server.wait_for_sessions(0)


def handshake(line: bytes = b"GET /ws HTTP/1.1", *headers: bytes) -> bytes:
    """Write the handshake of a WebSocket with another request line, or with further headers."""
    _, _, usual = HANDSHAKE.partition(b"\r\n")
    return b"\r\n".join([line, *headers, usual])


LINE = b"GET /ws HTTP/1.1"
LONG = b"x" * 9000
REFUSED = {
    "a length": (handshake(LINE, b"Content-Length: 5"), 400),
    "a body": (handshake(LINE, b"Content-Length: 5") + b"hello", 400),
    "chunks": (handshake(LINE, b"Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n", 400),
    "a long header": (handshake(LINE, b"X-Long: " + LONG), 431),
    "a long line": (handshake(b"GET /ws?" + LONG + b" HTTP/1.1"), 414),
    "many headers": (handshake(LINE, *(b"X-%d: 1" % number for number in range(200))), 431),
    "a path of an agent": (handshake(b"GET /mcp HTTP/1.1", b"Content-Length: 5"), 400),
    "a path of nothing": (handshake(b"GET /nothing HTTP/1.1", b"X-Long: " + LONG), 431),
    "another method": (handshake(b"POST /ws HTTP/1.1"), 405),
    "another version": (HANDSHAKE.replace(b"Version: 13", b"Version: 8"), 400),
    "a short key": (HANDSHAKE.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"c2hvcnQ="), 400),
}


@pytest.mark.parametrize(("sent", "status"), list(REFUSED.values()), ids=list(REFUSED))
def test_a_handshake_that_is_refused_has_an_answer(counter_server: RunningServer, sent: bytes, status: int) -> None:
    answer = answer_to(counter_server, sent)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"Failed to open a WebSocket connection: " in answer
    eventually(lambda: counter_server.connections == 0, "its socket is closed")


def test_a_server_ends_in_order_after_handshakes_that_it_refused_of_clients_that_stay() -> None:
    """``stop`` fails for an exception that the server did not handle."""
    server = RunningServer(create_fastapi_app(CounterEnvironment, Add, Total)).start()
    with ExitStack() as opened:
        for sent, _ in REFUSED.values():
            client = opened.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            client.sendall(sent)
        server.stop()


NAMES = st.sampled_from(["Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Host", "Origin", "Expect"])
VALUES = st.sampled_from(["0", "5", "-1", "chunked", "close", "h2c", "Upgrade", "websocket", "", "100-continue"])
HEADERS = st.tuples(
    NAMES | st.sampled_from(["Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Protocol", "X", "é", "a b"]),
    VALUES | st.text(st.characters(max_codepoint=0x2FF), max_size=9) | st.integers(8000, 20_000).map("y".__mul__),
)


@given(st.lists(HEADERS, max_size=3), st.sampled_from([b"", b"hello"]), st.sampled_from(["/ws", "/mcp", "/%00", "*"]))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_handshake_has_an_answer(
    counter_server: RunningServer, headers: list[tuple[str, str]], body: bytes, path: str
) -> None:
    written = [f"{name}: {value}".encode() for name, value in headers]
    with socket.create_connection(("127.0.0.1", counter_server.port), timeout=60) as client:
        client.sendall(handshake(f"GET {path} HTTP/1.1".encode(), *written) + body)
        assert client.recv(9) == b"HTTP/1.1 "


def answer_to(server: RunningServer, sent: bytes) -> bytes:
    """Return all that the server sends before it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(sent)
        return b"".join(iter(lambda: client.recv(65536), b""))
