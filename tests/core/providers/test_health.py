"""The readiness check, against servers that are healthy, ill, slow, hostile or gone."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from openenv.core.exceptions import ConfigurationError, ProviderError
from openenv.core.providers.health import is_up, wait_until_healthy


@contextmanager
def answering(*statuses: int) -> Iterator[tuple[str, list[str]]]:
    """Serve ``statuses`` in turn, the last one for ever; gives the address and the paths that were asked for."""
    remaining = list(statuses)
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(remaining.pop(0) if len(remaining) > 1 else remaining[0])
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", paths
        finally:
            server.shutdown()
            thread.join()


def alive() -> None:
    pass


def test_returns_once_health_answers_200() -> None:
    with answering(503, 404, 200) as (url, paths):
        wait_until_healthy(f"{url}/", 10, alive)
    assert paths == ["/health"] * 3


def test_says_what_it_got_instead() -> None:
    with answering(503) as (url, _), pytest.raises(TimeoutError, match=r"not ready within 0\.2 s.*status 503"):
        wait_until_healthy(url, 0.2, alive)


def test_refused_connections_end_in_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(TimeoutError, match="refused"):
        wait_until_healthy(f"http://127.0.0.1:{port}", 0.1, alive)


def test_a_server_that_accepts_and_never_answers_takes_no_longer_than_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv.core.providers.health.REQUEST_TIMEOUT_S", 1e6)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(TimeoutError, match=r"not ready within 0\.3 s.*timed out"),
    ):
        wait_until_healthy(f"http://127.0.0.1:{silent.getsockname()[1]}", 0.3, alive)


@pytest.mark.parametrize("nonsense", [b"", b"\0\1\2\n", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1"])
def test_a_server_that_speaks_something_else_is_not_healthy(nonsense: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stopping = threading.Event()
        listener.settimeout(0.02)

        def serve_nonsense() -> None:
            while not stopping.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.recv(1024)
                    connection.sendall(nonsense)

        thread = threading.Thread(target=serve_nonsense)
        thread.start()
        try:
            with pytest.raises(TimeoutError):
                wait_until_healthy(f"http://127.0.0.1:{listener.getsockname()[1]}", 0.2, alive)
        finally:
            stopping.set()
            thread.join()


def test_a_proxy_is_not_asked_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(500) as (proxy, asked), answering(200) as (url, _):
        monkeypatch.setenv("http_proxy", proxy)
        wait_until_healthy(url, 5, alive)
        assert asked == []


def test_a_proxy_is_asked_for_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(200) as (proxy, asked):
        monkeypatch.setenv("http_proxy", proxy)
        wait_until_healthy("http://server.invalid:8000", 5, alive)
        assert asked == ["http://server.invalid:8000/health"]


def test_a_dead_server_is_told_at_once() -> None:
    def dead() -> None:
        raise ProviderError("it died")

    with pytest.raises(ProviderError, match="it died"):
        wait_until_healthy("http://127.0.0.1:9", 1e9, dead)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/", "host:8000", "http://", ""])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="http://host:port"):
        wait_until_healthy(url, 1, alive)


@pytest.mark.parametrize(
    ("statuses", "up", "asked"),
    [((200,), True, ["/health"]), ((404, 200), True, ["/health", "/"]), ((503,), False, ["/health", "/"])],
)
def test_a_server_without_health_may_answer_otherwise(statuses: tuple[int, ...], up: bool, asked: list[str]) -> None:
    with answering(*statuses) as (url, paths):
        assert is_up(f"{url}/", 10) is up
    assert paths == asked


def test_nobody_is_not_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert not is_up(url, 0.1)
    assert not is_up(url, 10)
    with pytest.raises(ConfigurationError, match="http://host:port"):
        is_up("file:///etc", 1)
