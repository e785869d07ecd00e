"""A server with a certificate, whose authority the test has made."""

import asyncio
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from tests.chaos.hostility import HANDSHAKE
from tests.cli.commands.test_serve import serving
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer, eventually

from openenv import GenericEnvClient
from openenv.core import MCPToolClient
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.tls import TLS
from openenv.core.exceptions import ConfigurationError, ConnectionFailedError

PASSWORD = "open sesame"
# A close frame with the code 1000, masked with zeros.
GOODBYE = bytes([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE8])


class Files:
    """A certificate for this machine, its key, and the authority that vouches for it.

    Attributes:
        authority: The authority's certificate.
        certificate: The server's.
        key: Its key.
        locked_key: The same, encrypted.
        other_key: Another one.
    """

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        server, other = (authority.issue_cert("127.0.0.1", "localhost") for _ in range(2))
        self.authority = folder / "authority.pem"
        self.certificate = folder / "certificate.pem"
        self.key = folder / "key.pem"
        self.locked_key = folder / "locked_key.pem"
        self.other_key = folder / "other_key.pem"
        authority.cert_pem.write_to_path(self.authority)
        self.certificate.write_bytes(b"".join(blob.bytes() for blob in server.cert_chain_pems))
        server.private_key_pem.write_to_path(self.key)
        other.private_key_pem.write_to_path(self.other_key)
        key = load_pem_private_key(self.key.read_bytes(), None)
        locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD.encode()))
        self.locked_key.write_bytes(locked)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def server(files: Files) -> Iterator[RunningServer]:
    app = create_fastapi_app(CounterEnvironment, Add, Total, max_concurrent_envs=8)
    tls = TLS(str(files.certificate), str(files.key))
    with RunningServer(app, **tls.uvicorn_settings()) as server:
        yield server


def play(url: str) -> float | None:
    with GenericEnvClient(base_url=url).sync() as client:
        client.reset()
        return client.step({"amount": 3}).reward


def test_a_client_that_trusts_the_authority_plays(
    server: RunningServer, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))
    assert play(f"https://127.0.0.1:{server.port}") == 3
    assert play(f"https://localhost:{server.port}") == 3


def test_certificates_may_be_given_to_a_client(server: RunningServer, files: Files) -> None:
    url = f"https://localhost:{server.port}"
    for given in (files.authority, str(files.authority), ssl.create_default_context(cafile=files.authority)):
        with GenericEnvClient(base_url=url, ssl=given).sync() as client:
            client.reset()
            assert client.step({"amount": 3}).reward == 3
            assert client.schemas()["action"]["title"] == "Add"
            with client.vector(2) as vector:
                assert len(vector.reset()) == 2
    with MCPToolClient(base_url=url, ssl=files.authority).sync() as client:
        client.reset()
        assert client.has_tool("add")


@pytest.mark.parametrize("given", ["no_such_file.pem", __file__, 3], ids=["absent", "no certificate", "no path"])
def test_what_has_no_certificates_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="the path of certificates in PEM"):
        GenericEnvClient(base_url="https://localhost", ssl=given)


def test_one_that_does_not_refuses_to(server: RunningServer) -> None:
    with pytest.raises(ConnectionFailedError, match="certificate"):
        play(f"https://127.0.0.1:{server.port}")


def test_the_origin_of_its_own_pages_has_the_scheme_https(server: RunningServer, files: Files) -> None:
    host = f"127.0.0.1:{server.port}"
    context = ssl.create_default_context(cafile=files.authority)
    with server.http(verify=context) as http:
        for scheme, status in (("https", 200), ("http", 403)):
            answer = http.post(f"https://{host}/reset", headers={"Origin": f"{scheme}://{host}"})
            assert answer.status_code == status


def test_the_cookie_of_a_session_travels_encrypted_only(server: RunningServer, files: Files) -> None:
    with server.http(verify=ssl.create_default_context(cafile=files.authority)) as http:
        answer = http.post(f"https://127.0.0.1:{server.port}/reset")
    assert "secure" in [attribute.strip().lower() for attribute in answer.headers["set-cookie"].split(";")]


@contextmanager
def connected(port: int, files: Files) -> Iterator[ssl.SSLSocket]:
    """A client that never ends TLS itself."""
    context = ssl.create_default_context(cafile=files.authority)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        yield client


def test_a_client_that_has_said_goodbye_need_not_end_tls(server: RunningServer, files: Files) -> None:
    with connected(server.port, files) as client:
        client.sendall(HANDSHAKE)
        while b"\r\n\r\n" not in client.recv(4096):
            pass
        server.wait_for_sessions(1)
        client.sendall(GOODBYE)
        eventually(lambda: server.connections == 0, "its connection is closed")


@pytest.mark.parametrize(
    "sent", [b"Connection: close\r\n\r\n", b"Content-Length: no\r\n\r\n"], ids=["the last", "wrong"]
)
def test_a_client_whose_request_is_answered_need_not_end_tls(server: RunningServer, files: Files, sent: bytes) -> None:
    with connected(server.port, files) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + sent)
        assert client.recv(9) == b"HTTP/1.1 "
        eventually(lambda: server.connections == 0, "its connection is closed")


def client_hello(files: Files) -> bytes:
    """The first message of TLS."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    handshake = ssl.create_default_context(cafile=files.authority).wrap_bio(received, sent, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        handshake.do_handshake()
    return sent.read()


PARTS = {
    "nothing": slice(0),
    "a byte": slice(1),
    "half of the first message": slice(99),
    "the first message": slice(None),
}


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("part", list(PARTS.values()), ids=list(PARTS))
def test_a_handshake_of_tls_has_the_time_of_a_head(files: Files, part: slice, loop: str) -> None:
    """asyncio gives it a minute."""
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    app = create_fastapi_app(CounterEnvironment, Add, Total, header_timeout_s=0.5)
    tls = TLS(str(files.certificate), str(files.key))
    with (
        RunningServer(app, loop=loop, **tls.uvicorn_settings()) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as client,
    ):
        client.sendall(client_hello(files)[part])
        eventually(lambda: server.connections == 1, "it has connected")
        while client.recv(4096):
            pass
        eventually(lambda: server.connections == 0, "its connection is closed")
        with connected(server.port, files) as other:
            other.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert other.recv(9) == b"HTTP/1.1 "


class LateLoop(asyncio.SelectorEventLoop):
    """Begins to start TLS some turns later than asyncio does by itself."""

    async def start_tls(self, *arguments: Any, **settings: Any) -> Any:
        for _ in range(9):
            await asyncio.sleep(0)
        return await super().start_tls(*arguments, **settings)


def test_the_first_message_waits_for_tls_however_late_the_loop_starts_it(files: Files) -> None:
    app = create_fastapi_app(CounterEnvironment, Add, Total)
    tls = TLS(str(files.certificate), str(files.key))
    with (
        RunningServer(app, loop=f"{__name__}:{LateLoop.__name__}", **tls.uvicorn_settings()) as server,
        connected(server.port, files) as client,
    ):
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(9) == b"HTTP/1.1 "


def test_a_first_message_in_many_parts(server: RunningServer, files: Files) -> None:
    """Each byte of the handshake by itself, but for its end, which comes together with a request."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context(cafile=files.authority).wrap_bio(received, sent, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in sent.read():
                    client.sendall(bytes([byte]))
                received.write(client.recv(65536))
        tls.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")  # together with the end of the handshake
        client.sendall(sent.read())
        while True:
            try:
                assert tls.read(9) == b"HTTP/1.1 "
                break
            except ssl.SSLWantReadError:
                received.write(client.recv(65536))


def test_a_handshake_that_is_refused_has_an_answer(server: RunningServer, files: Files) -> None:
    context = ssl.create_default_context(cafile=files.authority)
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as client:
        client.sendall(HANDSHAKE.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n"))
        assert b"".join(iter(lambda: client.recv(4096), b"")).startswith(b"HTTP/1.1 400 Bad Request\r\n")


@pytest.mark.parametrize("workers", [1, 2])
def test_serve_takes_the_files(files: Files, tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))
    options = ("--ssl-certfile", files.certificate, "--ssl-keyfile", files.locked_key, "--workers", workers)
    variables = {"OPENENV_SSL_KEYFILE_PASSWORD": PASSWORD}
    with serving("echo", "-p", 0, *options, cwd=tmp_path, variables=variables, stderr=subprocess.STDOUT) as server:
        assert server.url.startswith("https://")
        with GenericEnvClient(base_url=server.url).sync() as client:
            client.reset()
            assert client.step({"message": "hello"}).reward == 0.5
        server.process.terminate()
        assert server.process.stdout is not None
        assert PASSWORD not in server.process.stdout.read()


class TestFiles:
    def test_an_encrypted_key_needs_its_password(self, files: Files) -> None:
        TLS(str(files.certificate), str(files.locked_key), PASSWORD)
        for password in (None, "", "wrong"):
            with pytest.raises(ConfigurationError, match="for an encrypted key, its password"):
                TLS(str(files.certificate), str(files.locked_key), password)

    def test_files_that_do_not_belong_together(self, files: Files) -> None:
        with pytest.raises(ConfigurationError, match="Expected PEM files that belong together"):
            TLS(str(files.certificate), str(files.other_key))

    def test_files_that_are_not_there(self, files: Files, tmp_path: Path) -> None:
        for certificate, key in ((tmp_path / "x", files.key), (files.certificate, tmp_path / "x")):
            with pytest.raises(ConfigurationError, match="No such file or directory"):
                TLS(str(certificate), str(key))

    def test_a_key_alone(self, files: Files) -> None:
        assert TLS.of(None, None, None) is None
        with pytest.raises(ConfigurationError, match=r"Expected a certificate \(ssl_certfile\)"):
            TLS.of(None, str(files.key), None)

    def test_the_password_is_in_no_repr(self, files: Files) -> None:
        assert PASSWORD not in repr(TLS(str(files.certificate), str(files.locked_key), PASSWORD))


def test_serve_says_what_is_wrong_in_a_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "openenv.cli", "serve", "echo", "--ssl-certfile", "absent.pem"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith("Error: Can't use the certificate absent.pem")
    assert "Traceback" not in ended.stderr
