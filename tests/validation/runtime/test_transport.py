"""A request ends with its time, whatever the server does."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from openenv.validation.runtime.transport import abort_socket, http_deadline


@pytest.fixture
def dripping_url() -> Iterator[str]:
    """Address of a server that sends a byte now and then, and never ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_drip, args=(listener,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(60)


def _drip(listener: socket.socket) -> None:
    connection = listener.accept()[0]
    with connection, suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            connection.sendall(b"x")
            time.sleep(0.05)


def test_deadline_ends_a_request_whose_bytes_keep_coming(dripping_url: str) -> None:
    with (
        pytest.raises(TimeoutError, match=r"did not end within 0\.3 s"),
        http_deadline(0.3) as extensions,
        httpx.Client(trust_env=False) as client,
    ):
        client.get(dripping_url, extensions=dict(extensions), timeout=60)


def test_error_within_the_time_is_raised_as_it_is() -> None:
    with pytest.raises(KeyError), http_deadline(60):
        raise KeyError("other")


def _read(connection: socket.socket) -> None:
    with suppress(OSError):  # where the abort comes first
        connection.recv(1)


def test_aborted_socket_wakes_its_reader() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reader = threading.Thread(target=_read, args=(ours,))
        reader.start()
        abort_socket(ours)
        reader.join(60)
        assert not reader.is_alive()
        abort_socket(ours)
