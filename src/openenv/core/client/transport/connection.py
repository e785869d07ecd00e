"""A client's WebSocket connection: frames out, frames in, and why it ended.

The ``websockets`` library makes the connection, with proxies, TLS, pings and the closing handshake. Messages bypass it,
since its own ``recv`` costs a queue and a task switch for each message, and its parser a few generators: see
``openenv/core/websocket_frames.py``.
"""

import asyncio
import atexit
import logging
import os
import re
import socket
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ssl import SSLContext, SSLError
from typing import Any, ClassVar, NamedTuple, Protocol
from urllib.error import URLError
from weakref import WeakSet

from pydantic_core import from_json
from websockets.asyncio.client import ClientConnection, connect
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus, PayloadTooBig, WebSocketException
from websockets.frames import DATA_OPCODES, CloseCode, Frame, Opcode
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from openenv.core.addresses import is_on_this_machine, url_of, without_query
from openenv.core.client.transport.deadlines import Deadlines
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    ErrorCode,
    InvalidAnswerError,
    OpenEnvError,
    ServerUnauthorizedError,
)
from openenv.core.websocket_frames import BINARY_FRAME, FrameSplitter, client_frame, payload_of
from openenv.core.wire.names import (
    API_KEY_HEADER,
    ARRAYS,
    COLUMNS,
    FEATURES_HEADER,
    SESSION_HEADER,
    SESSIONS_HEADER,
    V1,
    features_in,
)
from openenv.core.wire.redaction import HiddenCredentials

# With these a server closes that can't take what it was sent, and could not the next time either.
_COMPLAINTS = frozenset(
    {
        CloseCode.PROTOCOL_ERROR,
        CloseCode.UNSUPPORTED_DATA,
        CloseCode.INVALID_DATA,
        CloseCode.POLICY_VIOLATION,
        CloseCode.MESSAGE_TOO_BIG,
        CloseCode.MANDATORY_EXTENSION,
    }
)
# What may stand in a header: a session id of another server's making might hold a line break.
_HEADER_SAFE = re.compile(r"[!-~]{1,200}")
_SESSIONS = re.compile(r"\d{1,9}", re.ASCII)
_UNAUTHORIZED, _FORBIDDEN = 401, 403
_NOT_RUNNING = "Is the server running? Start it, for example with `openenv serve NAME`, or correct the address."
# Servers of a fleet that send a client on, one to the next, before it gives up.
_MOST_PLACEMENTS = 4
_LONGEST_SENTENCE = 500
_END_OF_HEADERS = b"\r\n\r\n"
# asyncio reads into a new buffer of 256 KiB for whatever comes. The C library gets memory of more than 128 KiB from the
# kernel each time, and gives it back: that costs more than everything else that is done to receive an answer.
_READ_BYTES = 64 * 1024

# How long to wait for a server that was requested to close, or whose pong is overdue.
CLOSE_TIMEOUT_S = 1.0


@dataclass(frozen=True)
class Endpoint:
    """Where to connect to, and how. Two clients with the same ones can share a connection.

    Attributes:
        url: Address of the socket, ``ws://`` or ``wss://``.
        connect_timeout_s: Seconds for the whole handshake.
        max_message_bytes: Longest message to accept.
        ping_interval_s: Seconds between pings.
        ping_timeout_s: Seconds to wait for a pong.
        headers: Further headers of the handshake, which may hold secrets.
        arrays: Whether to receive arrays and files as bytes, in binary frames, from a server that has them.
        same_origin_only: Whether the headers are for this origin alone, so that no redirect and no placement of a fleet
            may lead to another one.
        check_server: Raises an ``OpenEnvError`` where the server's process was started by this one and has ended;
            returns at once.
        ssl: Certificates to trust; ``None`` for those of the system.
    """

    url: str
    connect_timeout_s: float
    max_message_bytes: int
    ping_interval_s: float | None
    ping_timeout_s: float | None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    arrays: bool = False
    same_origin_only: bool = False
    check_server: Callable[[], None] | None = field(default=None, repr=False)
    ssl: SSLContext | None = field(default=None, repr=False)

    @property
    def shown(self) -> str:
        """The address for messages."""
        return without_query(self.url)


class Placement(NamedTuple):
    """Where a fleet sends a client: to one of its servers.

    Attributes:
        url: Address of that server's socket.
        sessions: Number of free slots for the sessions that the client wants; 0 where no server has any.
    """

    url: str
    sessions: int


class Receiver(Protocol):
    """Who takes what comes over a connection."""

    def received(self, message: bytes, /, *, binary: bool = False) -> None:
        """Take a message, of a text frame or a binary one."""

    def lost(self) -> None:
        """Learn that nothing more will come."""


class _NoReceiver:
    """Takes no notice."""

    def received(self, message: bytes, /, *, binary: bool = False) -> None:
        """Do nothing."""

    def lost(self) -> None:
        """Do nothing."""


_NO_RECEIVER = _NoReceiver()


class Connection(ClientConnection):
    """A connection whose messages go to a receiver.

    Attributes:
        usable: Cleared, by any thread, once this side has let go of it.
        endpoint: Where it leads to, which in a fleet is not where its client began.
        reads_columns: Whether the server reads messages with columns for many sessions.
        deadlines: Of the answers that are awaited on it.
    """

    endpoint: Endpoint
    reads_columns = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._receiver: Receiver | None = None
        # What comes before there is a receiver: a server may speak first, to say why it is about to close.
        self._early: list[tuple[bytes, bool]] = []
        self.deadlines = Deadlines(self.loop)
        self._frames = FrameSplitter(masked=False)
        self._handshake_end = b""
        self._fragments: list[bytes] = []
        self._is_binary = False
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
            message, is_binary = self._early.pop(0)
            receiver.received(message, binary=is_binary)
        if self.protocol.state is State.CLOSED:
            receiver.lost()

    def detach(self) -> None:
        """Tell the receiver nothing more, and end what may be left of a connection that has gone."""
        self._receiver = _NO_RECEIVER
        if self.protocol.state is not State.CLOSED:
            self.loop.call_soon(self.transport.abort)  # not now: the library may be about to send

    def report_lost(self) -> None:
        """Tell the receiver, if there is one, that nothing more will come."""
        if self._receiver is not None:
            self._receiver.lost()

    def send_message(self, message: bytes) -> None:
        """Send a text frame. Only the connection's own loop may call this.

        Raises:
            ConnectionLostError: The connection has gone.
        """
        if self.protocol.state is not State.OPEN:
            raise self.lost_error()
        try:
            self.transport.write(client_frame(message))
        except (OSError, RuntimeError):  # the last one is uvloop's for a transport that is closed
            raise self.lost_error() from None

    def abort(self) -> None:
        """Close at once, without the closing handshake. Only the connection's own loop may call this."""
        self.usable = False
        self.transport.abort()

    def close_soon(self) -> None:
        """Accept no further request, and close soon. Any thread may call this."""
        self.usable = False
        asyncio.run_coroutine_threadsafe(self.close(), self.loop)

    def abort_orphaned(self) -> None:
        """Let go of an orphaned connection. The server learns of it, unless the parent process goes on using it."""
        self.usable = False
        if self._process != os.getpid():
            return
        # The transport's abort() needs the loop. With a loop that was closed, uvloop has closed the socket too: None.
        own: socket.socket | None = self.transport.get_extra_info("socket")
        if own is not None:
            with suppress(OSError), socket.socket(fileno=os.dup(own.fileno())) as duplicate:
                if self.protocol.state is State.OPEN and self._may_write_past_the_loop():
                    self.protocol.send_close(CloseCode.GOING_AWAY)  # else the server keeps the sessions for a while
                    duplicate.send(b"".join(self.protocol.data_to_send()))
                duplicate.shutdown(socket.SHUT_RDWR)

    def _may_write_past_the_loop(self) -> bool:
        """Whether bytes for the socket itself would arrive as a frame: not inside TLS, nor inside another frame."""
        return self.transport.get_extra_info("ssl_object") is None and not self.transport.get_write_buffer_size()

    def data_received(self, data: bytes) -> None:
        """Take frames that are a whole message; leave all others to the library."""
        if self.response is None:
            data = self._read_handshake(data)
        for head, frame in self._frames.split(data, self.protocol.max_message_size):
            if head and self.protocol.state is State.OPEN and not self._fragments:
                self._pass_on(payload_of(frame, head), binary=frame[0] == BINARY_FRAME)
            else:
                super().data_received(frame)

    def _read_handshake(self, data: bytes) -> bytes:
        """Give the library the answer to the opening handshake, and return what comes after it."""
        seen = self._handshake_end + data
        end = seen.find(_END_OF_HEADERS)
        size = len(data) if end < 0 else end + len(_END_OF_HEADERS) - len(self._handshake_end)
        self._handshake_end = seen[1 - len(_END_OF_HEADERS) :]
        super().data_received(data[:size])
        if self.response is None:  # there is more of it
            super().data_received(data[size:])
            return b""
        return data[size:]

    def process_event(self, event: Any) -> None:
        """Take a message's fragments; leave the handshake and the control frames to the library."""
        if self.response is None or not isinstance(event, Frame) or event.opcode not in DATA_OPCODES:
            super().process_event(event)
            if isinstance(event, Frame) and event.opcode is Opcode.CLOSE:
                self.report_lost()  # nothing comes after it, even where the server keeps the TCP connection
            return
        if event.opcode is not Opcode.CONT:
            self._is_binary = event.opcode is Opcode.BINARY
        self._fragments.append(bytes(event.data))
        if event.fin:
            message = b"".join(self._fragments)
            self._fragments.clear()
            self._pass_on(message, binary=self._is_binary)

    def _pass_on(self, message: bytes, *, binary: bool) -> None:
        """Give a message to the receiver, or keep it until there is one."""
        if self._receiver is None:
            self._early.append((message, binary))
        else:
            self._receiver.received(message, binary=binary)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the receiver."""
        super().connection_lost(exc)
        self.report_lost()

    def lost_error(self) -> OpenEnvError:
        """Make the error for a request that gets no answer, saying which side ended the connection and why."""
        too_long = self.protocol.parser_exc
        if isinstance(too_long, PayloadTooBig):
            return InvalidAnswerError(
                f"The server's answer is longer than the client's max_message_size_mb allows: {too_long}. Make the "
                "client with a larger one. The connection was dropped; the next call opens a new session."
            )
        return ConnectionLostError(f"{self.end_text()}, and the session is lost. The next call opens a new session.")

    def end_text(self) -> str:
        """Say which side ended the connection and why, as the beginning of a sentence."""
        received = self.protocol.close_rcvd
        if received is not None and self.protocol.close_rcvd_then_sent:
            return f"The server closed the connection with code {received.code} {received.reason}".rstrip(" .")
        if not self.usable:
            return "The client closed the connection, by close() or since another call got no answer in time"
        if self._pong_is_overdue():
            return f"The server did not answer a ping within {self.ping_timeout} s (websocket_ping_timeout_s)"
        return "The server closed the connection without a closing handshake"

    @property
    def may_be_replaced(self) -> bool:
        """Whether it ended in a way that another connection may mend: not by what one side has sent, nor on purpose."""
        received = self.protocol.close_rcvd
        read_to_its_end = self.protocol.parser_exc is None or isinstance(self.protocol.parser_exc, EOFError)
        return self.usable and read_to_its_end and (received is None or received.code not in _COMPLAINTS)

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


def _say_goodbye() -> None:
    """Close what is open when the process ends: else a server would keep sessions without a client."""
    closing: list[Future[None]] = []
    for connection in list(_connections):
        if connection.is_open and connection.orphaned:
            connection.abort_orphaned()
        elif connection.is_open:  # in the background loop, whose thread runs on until the interpreter has ended
            connection.usable = False
            closing.append(asyncio.run_coroutine_threadsafe(connection.close(), connection.loop))
    wait(closing, timeout=CLOSE_TIMEOUT_S)


atexit.register(_say_goodbye)


_wire_logger = logging.getLogger("websockets.client.openenv")
_wire_logger.addFilter(HiddenCredentials())


class _Connect(connect):
    """Connects, and leaves it to its caller to go where a fleet sends it; other redirects are followed.

    Attributes:
        placement: Where a fleet sends the client; ``None`` where none has answered.
    """

    placement: Placement | None = None
    _same_origin_only: ClassVar[bool] = False

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Say where to connect to instead, or what to raise."""
        target = super().process_redirect(exc)
        if not isinstance(target, str):
            return target
        here, there = _origin_of(self.uri), _origin_of(target)
        if here != there and self._same_origin_only:
            return _other_origin(here, there)
        if here != there:
            self._drop_api_key()
        if isinstance(exc, InvalidStatus):
            sessions = exc.response.headers.get_all(SESSIONS_HEADER)
            if len(sessions) == 1 and _SESSIONS.fullmatch(sessions[0]):
                self.placement = Placement(target, int(sessions[0]))
                return exc
        return target

    def _drop_api_key(self) -> None:
        """Drop the token from the headers for another origin; the library drops ``Authorization`` and cookies."""
        headers = Headers(self.additional_headers or {}).raw_items()
        kept = [(name, value) for name, value in headers if name.lower() != API_KEY_HEADER.lower()]
        self.additional_headers = Headers(kept)


class _ConnectSameOrigin(_Connect):
    """Connects, and goes to no other origin."""

    _same_origin_only = True


def _origin_of(url: str) -> str:
    """Return the scheme, the host and the port of a socket's address."""
    parts = parse_uri(url)
    return url_of(parts.host, parts.port, https=parts.secure)


def _other_origin(here: str, there: str) -> ConnectionFailedError:
    """Make the error for a server that sends a client elsewhere, where its headers must not go."""
    return ConnectionFailedError(
        f"{here} sends the client on to {there}, and the headers of the client's provider are for {here} alone, so no "
        "connection was made. Does the image serve an environment? A fleet has to be run outside of such a sandbox."
    )


async def connect_to_server(endpoint: Endpoint, session_id: str | None = None, sessions: int = 1) -> Connection:
    """Connect to a server or, where the address is a fleet's, to the server that the fleet chooses.

    Args:
        endpoint: Where and how.
        session_id: A session of v1 that the connection is to take up.
        sessions: For how many sessions it is.

    Raises:
        ConfigurationError: The address or a header is none.
        ConnectionFailedError: There is no server, or it refused.
        ServerUnauthorizedError: It asks for a token, or for another one.
    """
    url = endpoint.url
    for _ in range(_MOST_PLACEMENTS):
        connected = await open_connection(replace(endpoint, url=url), session_id, sessions)
        if isinstance(connected, Connection):
            return connected
        url = connected.url
    raise ConnectionFailedError(
        f"{endpoint.shown} leads from one address to the next; the last one was {without_query(url)}."
    )


async def open_connection(
    endpoint: Endpoint, session_id: str | None = None, sessions: int = 1
) -> Connection | Placement:
    """Connect to a server, offering it v1, or learn from a fleet to which of its servers to connect.

    Args:
        endpoint: Where and how.
        session_id: A session of v1 that the connection is to take up.
        sessions: For how many sessions it is.

    Raises:
        ConfigurationError: The address or a header is none.
        ConnectionFailedError: There is no server, or it refused.
        ServerUnauthorizedError: It asks for a token, or for another one.
    """
    features = f"{COLUMNS}, {ARRAYS}" if endpoint.arrays else COLUMNS
    headers = [*endpoint.headers, (FEATURES_HEADER, features)]
    if session_id is not None and _HEADER_SAFE.fullmatch(session_id):
        headers.append((SESSION_HEADER, session_id))
    if sessions > 1:
        headers.append((SESSIONS_HEADER, str(sessions)))
    certificates: dict[str, Any] = {} if endpoint.ssl is None else {"ssl": endpoint.ssl}
    try:
        connecting = (_ConnectSameOrigin if endpoint.same_origin_only else _Connect)(
            endpoint.url,
            create_connection=Connection,
            subprotocols=[Subprotocol(V1)],
            open_timeout=endpoint.connect_timeout_s,
            close_timeout=CLOSE_TIMEOUT_S,
            max_size=endpoint.max_message_bytes,
            ping_interval=endpoint.ping_interval_s,
            ping_timeout=endpoint.ping_timeout_s,
            additional_headers=headers,
            compression=None,
            logger=_wire_logger,
            # A proxy cannot reach this machine's own addresses.
            proxy=None if is_on_this_machine(endpoint.url) else True,
            **certificates,
        )
        connection = await connecting
    except InvalidStatus as error:
        if connecting.placement is not None:
            return connecting.placement
        raise _refusal(endpoint.shown, error) from error
    except ConnectionFailedError as error:
        raise error.with_traceback(None) from None
    except (OSError, TimeoutError, WebSocketException) as error:
        # The frames of sockets and event loops would bury the one sentence that helps.
        raise ConnectionFailedError(f"Failed to connect to {endpoint.shown}: {failure_text(error)}") from None
    except ValueError as error:
        raise ConfigurationError(
            f"No connection can be made to {endpoint.shown} with the client's settings: {error}"
        ) from error
    assert isinstance(connection, Connection)
    assert connection.response is not None
    connection.endpoint = endpoint
    _limit_reads(connection.transport)
    connection.reads_columns = COLUMNS in features_in(connection.response.headers.get_all(FEATURES_HEADER))
    return connection


def _limit_reads(transport: Any) -> None:
    """Have a transport of asyncio's own loop read in smaller pieces; others have no such number."""
    if getattr(transport, "max_size", 0) > _READ_BYTES:
        transport.max_size = _READ_BYTES


def _refusal(url: str, error: InvalidStatus) -> OpenEnvError:
    """Make the error for a handshake that the server refused, in its own words where it has any."""
    status = error.response.status_code
    said = server_sentence(error.response.body)
    if status == _UNAUTHORIZED:
        return unauthorized(url, said)
    if status == _FORBIDDEN and said is not None:
        return ConnectionFailedError(f"The server at {url} refused the connection: {said}")
    return ConnectionFailedError(f"Failed to connect to {url}: {error}")


def failure_text(error: Exception) -> str:
    """Say why a server could not be reached and, where none seems to be running, what to do.

    Args:
        error: What the socket or the library said.
    """
    reason = error.reason if isinstance(error, URLError) and isinstance(error.reason, Exception) else error
    said = str(reason) or type(reason).__name__
    return f"{said}. {_NOT_RUNNING}" if isinstance(reason, OSError) and not isinstance(reason, SSLError) else said


def server_sentence(body: bytes | bytearray | None) -> str | None:
    """Return what a server says with a refusal over HTTP, ``{"detail": ...}``; ``None`` where it says nothing."""
    try:
        document = from_json(body or b"")
    except ValueError:
        return None
    detail = document.get("detail") if isinstance(document, dict) else None
    return detail[:_LONGEST_SENTENCE] if isinstance(detail, str) else None


def unauthorized(url: str, said: str | None) -> ServerUnauthorizedError:
    """Make the error for a server that answers 401, with what it says."""
    return ServerUnauthorizedError(
        said or f"The server at {url} asks for a token, or for another one: give token=... or set OPENENV_TOKEN.",
        ErrorCode.UNAUTHORIZED,
    )
