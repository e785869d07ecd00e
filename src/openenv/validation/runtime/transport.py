"""Deadlines of whole requests: a server that sends a byte now and then keeps no request open for longer."""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import httpx
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from openenv.core.addresses import is_on_this_machine
from openenv.core.exceptions import RequestError

FAULTS = (OSError, WebSocketException, httpx.HTTPError, httpx.InvalidURL, RequestError, ValueError, EOFError)
"""Errors of a server's answers, or of their absence."""

_CLOSE_TIMEOUT_S = 1.0
_CONNECTED = "connection.connect_tcp.complete"


def abort_socket(sock: socket.socket) -> None:
    """End a socket at once, whatever another thread does with it; a thread that waits at it has its end of file.

    Args:
        sock: The socket; one that is closed already is fine.

    Example:
        >>> ours, theirs = socket.socketpair()
        >>> abort_socket(ours)
        >>> with theirs:
        ...     theirs.recv(1)
        b''
    """
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        sock.close()


def open_socket(
    url: str,
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    max_bytes: int,
    subprotocols: Sequence[Subprotocol] | None = None,
) -> ClientConnection:
    """Open a socket of a server that may answer anything; a context manager, which closes it.

    Args:
        url: Address of the socket, as ``socket_url`` returns it.
        headers: Headers of the handshake.
        timeout_s: Seconds of the handshake.
        max_bytes: Bytes of the longest message.
        subprotocols: The subprotocols that are offered; none if ``None``.
    """
    return connect(
        url,
        subprotocols=subprotocols,
        additional_headers=headers,
        compression=None,
        proxy=None if is_on_this_machine(url) else True,
        open_timeout=timeout_s,
        close_timeout=_CLOSE_TIMEOUT_S,
        ping_interval=None,
        max_size=max_bytes,
    )


@contextmanager
def http_deadline(timeout_s: float) -> Iterator[Mapping[str, Callable[[str, Mapping[str, Any]], None]]]:
    """Yield extensions of an httpx request whose connection is aborted after a time, whatever has come until then.

    Args:
        timeout_s: Seconds for the whole request: connection, headers and body.

    Raises:
        TimeoutError: The time was over before the block was.

    Example:
        >>> with http_deadline(5.0) as extensions:  # doctest: +SKIP
        ...     httpx.get("http://localhost:8000/schema", extensions=extensions)
    """
    request = _Request()
    timer = threading.Timer(timeout_s, request.expire)
    timer.daemon = True
    timer.start()
    try:
        yield {"trace": request.trace}
    except (OSError, httpx.HTTPError) as error:
        if request.is_expired:
            raise TimeoutError(f"the request did not end within {timeout_s:g} s") from error
        raise
    finally:
        timer.cancel()
    if request.is_expired:
        raise TimeoutError(f"the request did not end within {timeout_s:g} s")


class _Request:
    """Sockets of a request, and whether its time is over."""

    def __init__(self) -> None:
        self.is_expired = False
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep the socket of a new connection."""
        if event == _CONNECTED:
            connected = info["return_value"].get_extra_info("socket")
            with self._lock:
                self._sockets.append(connected)
            if self.is_expired:
                abort_socket(connected)

    def expire(self) -> None:
        """End the request."""
        self.is_expired = True
        with self._lock:
            opened = list(self._sockets)
        for each in opened:
            abort_socket(each)
