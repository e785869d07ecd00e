"""A client's WebSocket connection: frames out, frames in, and why it ended.

The ``websockets`` library makes the connection, with proxies, TLS, pings and the closing handshake. Messages are then
taken straight from its frames: its own ``recv`` costs a queue and a task switch for each message.
"""

import asyncio
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import urlsplit
from weakref import WeakSet

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidState, PayloadTooBig, WebSocketException
from websockets.frames import DATA_OPCODES, CloseCode, Frame, Opcode
from websockets.protocol import State
from websockets.typing import Subprotocol

from openenv.core.env_server.protocol import V1
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    InvalidAnswerError,
    OpenEnvError,
)

# How long a server that was told to close, or whose pong is overdue, is waited for.
CLOSE_TIMEOUT_S = 1.0


@dataclass(frozen=True)
class ConnectionSettings:
    """Where to connect to, and how. Two clients with the same ones can share a connection.

    Attributes:
        url: Address of the socket, ``ws://`` or ``wss://``.
        connect_timeout_s: Seconds for the whole handshake.
        max_message_bytes: Longest message to accept.
        ping_interval_s: Seconds between pings.
        ping_timeout_s: Seconds to wait for a pong.
        headers: Further headers of the handshake.
    """

    url: str
    connect_timeout_s: float
    max_message_bytes: int
    ping_interval_s: float | None
    ping_timeout_s: float | None
    headers: tuple[tuple[str, str], ...] = ()


class Receiver(Protocol):
    """Who takes what comes over a connection."""

    def received(self, message: bytes, /) -> None:
        """Take a message."""

    def lost(self) -> None:
        """Learn that nothing more will come."""


class Connection(ClientConnection):
    """A connection whose messages go to a receiver.

    Attributes:
        usable: Cleared, by any thread, once this side has let go of it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._receiver: Receiver | None = None
        # What comes before there is a receiver: a server may speak first, to say why it is about to close.
        self._early: list[bytes] = []
        self._fragments: list[bytes] = []
        self._process = os.getpid()
        self.usable = True
        _connections.add(self)

    @property
    def is_open(self) -> bool:
        """Whether something can be sent."""
        return self.usable and self.protocol.state is State.OPEN

    @property
    def orphaned(self) -> bool:
        """Whether its loop runs no more, or runs in the process that this one was forked from."""
        return self._process != os.getpid() or not self.loop.is_running()

    @property
    def may_go_on(self) -> bool:
        """Whether its loop may run again where it does not."""
        return self._process == os.getpid() and not self.loop.is_closed()

    def hand_over(self, receiver: Receiver) -> None:
        """Give what has come, and what will, to a receiver."""
        self._receiver = receiver
        while self._early:
            receiver.received(self._early.pop(0))
        if self.protocol.state is State.CLOSED:
            receiver.lost()

    def send_message(self, message: bytes) -> None:
        """Send a text frame. Only the connection's own loop may call this.

        Raises:
            ConnectionLostError: The connection has gone.
        """
        try:
            self.protocol.send_text(message)
            self.send_data()
        except (InvalidState, OSError, RuntimeError):  # the last one is uvloop's for a transport that is closed
            raise self.lost_error() from None

    def drop(self) -> None:
        """Close at once, without the closing handshake. Only the connection's own loop may call this."""
        self.usable = False
        self.transport.abort()

    def retire(self) -> None:
        """Let nothing be asked any more, and close soon. Any thread may call this."""
        self.usable = False
        asyncio.run_coroutine_threadsafe(self.close(), self.loop)

    def abandon(self) -> None:
        """Let go of an orphaned connection. The server learns of it, unless the parent process goes on using it."""
        self.usable = False
        if self._process != os.getpid():
            return
        # The transport's abort() needs the loop. With a loop that was closed, uvloop has closed the socket too: None.
        own: socket.socket | None = self.transport.get_extra_info("socket")
        if own is not None:
            with suppress(OSError), socket.socket(fileno=os.dup(own.fileno())) as duplicate:
                duplicate.shutdown(socket.SHUT_RDWR)

    def process_event(self, event: Any) -> None:
        """Take a message's frames; leave the handshake and the control frames to the library."""
        if self.response is None or not isinstance(event, Frame) or event.opcode not in DATA_OPCODES:
            super().process_event(event)
            if isinstance(event, Frame) and event.opcode is Opcode.CLOSE and self._receiver is not None:
                self._receiver.lost()  # nothing comes after it, even where the server keeps the TCP connection
            return
        self._fragments.append(bytes(event.data))
        if event.fin:
            message = b"".join(self._fragments)
            self._fragments.clear()
            if self._receiver is None:
                self._early.append(message)
            else:
                self._receiver.received(message)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the receiver."""
        super().connection_lost(exc)
        if self._receiver is not None:
            self._receiver.lost()

    def lost_error(self) -> OpenEnvError:
        """Make the error for a request that gets no answer, saying which side ended the connection and why."""
        too_long, received = self.protocol.parser_exc, self.protocol.close_rcvd
        if isinstance(too_long, PayloadTooBig):
            return InvalidAnswerError(
                f"The server's answer is longer than the client's max_message_size_mb allows: {too_long}. Make the "
                "client with a larger one. The connection was dropped; the next call opens a new session."
            )
        if received is not None and self.protocol.close_rcvd_then_sent:
            end = f"The server closed the connection with code {received.code} {received.reason}".rstrip()
        elif not self.usable:
            end = "The client closed the connection, by close() or since another call got no answer in time,"
        elif self._pong_is_overdue():
            end = f"The server did not answer a ping within {self.ping_timeout} s (websocket_ping_timeout_s)"
        else:
            end = "The server closed the connection without a closing handshake"
        return ConnectionLostError(f"{end} before the answer came. The next call opens a new session.")

    def _pong_is_overdue(self) -> bool:
        """Whether the library has ended the connection for want of a pong."""
        sent = self.protocol.close_sent
        return sent is not None and sent.code == CloseCode.INTERNAL_ERROR


_connections: WeakSet[Connection] = WeakSet()
# To collect these in a forked child would take the parent's loop the sockets that it waits on.
_of_the_parent: list[Connection] = []


def _keep_those_of_the_parent() -> None:
    _of_the_parent.extend(_connections)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_those_of_the_parent)


async def open_connection(settings: ConnectionSettings) -> Connection:
    """Connect to a server, offering it v1.

    Args:
        settings: Where and how.

    Raises:
        ConfigurationError: The address or a header is none.
        ConnectionFailedError: There is no server, or it refused.
    """
    try:
        connection = await connect(
            settings.url,
            create_connection=Connection,
            subprotocols=[Subprotocol(V1)],
            open_timeout=settings.connect_timeout_s,
            close_timeout=CLOSE_TIMEOUT_S,
            max_size=settings.max_message_bytes,
            ping_interval=settings.ping_interval_s,
            ping_timeout=settings.ping_timeout_s,
            additional_headers=settings.headers,
            compression=None,
            # A proxy cannot reach this machine's own addresses.
            proxy=None if is_loopback(settings.url) else True,
        )
    except (OSError, TimeoutError, WebSocketException) as error:
        raise ConnectionFailedError(
            f"Failed to connect to {settings.url}: {str(error) or type(error).__name__}"
        ) from error
    except ValueError as error:
        raise ConfigurationError(
            f"No connection can be made to {settings.url} with the client's settings: {error}"
        ) from error
    assert isinstance(connection, Connection)
    return connection


def is_loopback(url: str) -> bool:
    """Whether a URL's host is this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback or ip_address(host).is_unspecified
    except ValueError:
        return host == "localhost"
