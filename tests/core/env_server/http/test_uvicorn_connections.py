"""Each state of a connection has an answer or an end, and many connections keep no other client out.

More of this is in ``test_availability.py``, beside a client that goes on.
"""

import re
import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
import uvicorn
from fastapi import Response
from tests.chaos.hostility import HANDSHAKE
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer, ServerProcess, V1Wire, Wire, eventually, ticks
from websockets.exceptions import InvalidStatus

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.http.uvicorn_connections import TimedRequests
from openenv.core.env_server.websocket.uvicorn_sockets import DecisiveSockets

SERVING = Path(__file__).parents[4] / "docs" / "serving.md"
SIZE = 32 * 1024 * 1024
_BUFFER_BYTES = 4096
_GET = b"GET /large HTTP/1.1\r\nHost: localhost\r\n"


@contextmanager
def serving(**settings: Any) -> Iterator[RunningServer]:
    app = create_fastapi_app(CounterEnvironment, Add, Total, **settings)

    @app.get("/large")
    async def large(size: int = SIZE) -> Response:
        return Response(bytes(size))

    server = RunningServer(app)
    server.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
    with server:
        yield server


def deaf_client(server: RunningServer, sent: bytes) -> socket.socket:
    """Send a request and read nothing."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    client.settimeout(60)
    client.connect(("127.0.0.1", server.port))
    client.sendall(sent)
    return client


UNREAD = {
    "a long answer": _GET + b"\r\n",
    "a long answer, the last one": _GET + b"Connection: close\r\n\r\n",
    # It fits into the server's buffers, so that the connection is idle for the server, and then closed.
    "a short answer": _GET.replace(b"large", b"large?size=40000") + b"\r\n",
    "many answers": (_GET.replace(b"large", b"large?size=20000") + b"\r\n") * 500,
}


class TestReading:
    """A client has to read what it requested."""

    @pytest.mark.parametrize("sent", list(UNREAD.values()), ids=list(UNREAD))
    def test_an_answer_that_is_not_read_ends_its_connection(self, sent: bytes) -> None:
        with serving(body_timeout_s=0.5) as server, deaf_client(server, sent):
            eventually(lambda: server.connections == 1, "it has connected")
            eventually(lambda: server.connections == 0, "its connection is closed")

    def test_an_answer_may_be_read_slowly(self) -> None:
        """In six times the limit, at a multiple of the slowest rate."""
        with serving(body_timeout_s=0.5) as server, deaf_client(server, _GET + b"Connection: close\r\n\r\n") as slow:
            received = 0
            for _ in ticks(3.0):
                received += len(slow.recv(_BUFFER_BYTES))
            while data := slow.recv(65536):
                received += len(data)
            assert received > SIZE

    def test_without_a_limit(self) -> None:
        with serving(body_timeout_s=None) as server, deaf_client(server, _GET + b"Connection: close\r\n\r\n") as slow:
            eventually(lambda: server.unsent_bytes > 0, "it is answered")
            assert len(b"".join(iter(lambda: slow.recv(65536), b""))) > SIZE


def test_a_head_is_bounded() -> None:
    """A client is not read for as long as it sends headers."""
    with serving() as server, socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(_GET)
        sent = 0
        with suppress(ConnectionError):
            for number in count():
                line = b"X-%d: %b\r\n" % (number, b"x" * 4000)
                client.sendall(line)
                sent += len(line)
                assert sent < 16 * 1024 * 1024
        eventually(lambda: server.connections == 0, "its connection is closed")


FILES = 256
MANY = 300
V1 = HANDSHAKE[:-2] + b"Sec-WebSocket-Protocol: openenv.v1\r\n\r\n"
HELD = {
    "nothing": b"",
    "half a head": b"GET / HTTP/1.1\r\nX: ",
    "a request that is answered": b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a refused handshake": HANDSHAKE.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n"),
    "a handshake of v1": V1,
    "a handshake of an unknown path": HANDSHAKE.replace(b"/ws", b"/nothing"),
    "a page of another site": HANDSHAKE.replace(b"Host: 127.0.0.1", b"Host: evil.example"),
}


@contextmanager
def with_few_files(sessions: int, *certificate: str) -> Iterator[ServerProcess]:
    """Serve counters in a process that may have ``FILES`` files open."""
    with ServerProcess(
        "counter_server.py", str(sessions), *(("0", "30", *certificate) if certificate else ())
    ) as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
        yield server


@pytest.mark.parametrize("sent", list(HELD.values()), ids=list(HELD))
def test_very_many_connections_that_are_held_keep_nobody_out(sent: bytes) -> None:
    with with_few_files(4) as server, ExitStack() as opened, Wire(f"ws://127.0.0.1:{server.port}/ws") as before:
        before.reset()
        for _ in range(MANY):
            client = opened.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            client.sendall(sent)
        assert httpx.get(f"{server.url}/health", trust_env=False, timeout=60).status_code == 200
        with V1Wire(f"ws://127.0.0.1:{server.port}/ws") as wire:
            assert wire.do("reset", wire.open())["type"] == "observation"
        assert before.step(amount=1)["type"] == "observation", "a session is not closed for that"


CLOSED = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02", CLOSED], ids=["nothing", "half a handshake", "no end"])
def test_very_many_connections_of_tls_that_are_held_keep_nobody_out(tmp_path: Path, sent: bytes) -> None:
    authority, certificate, key = (tmp_path / name for name in ("authority.pem", "certificate.pem", "key.pem"))
    issuer = trustme.CA()
    issuer.cert_pem.write_to_path(authority)
    issued = issuer.issue_cert("127.0.0.1")
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    context = ssl.create_default_context(cafile=authority)
    with with_few_files(4, str(certificate), str(key)) as server, ExitStack() as opened:
        for _ in range(MANY):
            client = opened.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            if sent is CLOSED:
                client = opened.enter_context(context.wrap_socket(client, server_hostname="127.0.0.1"))
            client.sendall(sent)
        url = f"https://127.0.0.1:{server.port}/health"
        assert httpx.get(url, trust_env=False, timeout=30, verify=context).status_code == 200


UNUSED = {
    "legacy": HANDSHAKE,
    "MCP": HANDSHAKE.replace(b"/ws", b"/mcp"),
    "half a frame": HANDSHAKE + b"\x81",
    "closed by the server": HANDSHAKE.replace(b"/ws", b"/web/live/feed"),
}


@pytest.mark.parametrize("sent", list(UNUSED.values()), ids=list(UNUSED))
def test_very_many_sockets_whose_session_is_not_used_keep_nobody_out(sent: bytes) -> None:
    with with_few_files(2 * MANY) as server, ExitStack() as opened, Wire(f"ws://127.0.0.1:{server.port}/ws") as before:
        before.reset()
        for _ in range(MANY):
            client = opened.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            client.sendall(sent)
        assert is_served(server)
        with Wire(f"ws://127.0.0.1:{server.port}/ws") as wire:
            assert wire.reset()["type"] == "observation"
        assert before.step(amount=1)["type"] == "observation", "a session that is used is not closed for that"


WRONG_AFTER = {
    "chunks": b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a length": b"GET /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n",
    "a step": b"POST /mcp HTTP/1.1\r\nHost: evil.example\r\nTransfer-Encoding: chunked\r\n\r\n",
}


@pytest.mark.parametrize("sent", list(WRONG_AFTER.values()), ids=list(WRONG_AFTER))
def test_a_body_that_is_no_http_after_the_answer_ends_its_connection(sent: bytes) -> None:
    """``RunningServer`` fails for an exception that the server did not handle."""
    with serving() as server, socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(sent)
        assert client.recv(9) == b"HTTP/1.1 "
        client.sendall(b"hellozz\r\n")
        with suppress(ConnectionError):
            while client.recv(65536):
                pass
        eventually(lambda: server.connections == 0, "its connection is closed")


def test_uvicorn_by_itself_has_the_limits_by_the_options_of_the_docs() -> None:
    named = dict(re.findall(r"--(http|ws) (openenv\S+)", SERVING.read_text()))
    app = create_fastapi_app(CounterEnvironment, Add, Total)
    config = uvicorn.Config(app, http=named["http"], ws=named["ws"])
    config.load()
    assert (config.http_protocol_class, config.ws_protocol_class) == (TimedRequests, DecisiveSockets)


def test_a_server_full_of_connections_that_are_used_refuses_the_next_one() -> None:
    with with_few_files(MANY) as server, ExitStack() as opened:
        wires: list[V1Wire] = []
        with pytest.raises(InvalidStatus) as refused:  # noqa: PT012  # which of them is refused depends on the process
            while len(wires) < MANY:
                wire = opened.enter_context(V1Wire(f"ws://127.0.0.1:{server.port}/ws"))
                wire.open()
                wires.append(wire)
        assert refused.value.response.status_code == 503
        assert FILES // 2 < len(wires) < FILES
        assert wires[0].do("reset", wires[0].open())["type"] == "observation"
        wires.pop().close()
        eventually(lambda: is_served(server), "it has room again")


def is_served(server: ServerProcess) -> bool:
    return httpx.get(f"{server.url}/health", trust_env=False, timeout=60).status_code == 200
