"""A client's WebSocket connection on the public wire: text out, the answers to it in the same order.

The ``websockets`` library makes the connection, with proxies, TLS, pings and the closing handshake. Messages are then
taken straight from its frames: its own ``recv`` costs a queue and a task switch for each message.
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from threading import Lock
from typing import Any, Protocol
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidState, PayloadTooBig, WebSocketException
from websockets.frames import DATA_OPCODES, CloseCode, Frame
from websockets.protocol import State

from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    InvalidAnswerError,
    OpenEnvError,
    ResponseTimeoutError,
)

# How long a server that was told to close, or whose pong is overdue, is waited for.
_CLOSE_TIMEOUT_S = 1.0


class Answer(Protocol):
    """Somebody who waits for the answer to a request."""

    def set_result(self, reply: bytes, /) -> None:
        """Take the answer."""

    def set_exception(self, error: BaseException, /) -> None:
        """Learn that there will be none."""

    def done(self) -> bool:
        """Whether nobody waits any more."""


class ThreadAnswer:
    """An answer that a thread blocks for. A lock is the cheapest thing that one thread can wait on for another."""

    __slots__ = ("_error", "_lock", "_reply")

    def __init__(self) -> None:
        self._lock = Lock()
        self._lock.acquire()
        self._reply: bytes | None = None
        self._error: BaseException | None = None

    def set_result(self, reply: bytes) -> None:
        """Take the answer and wake the thread."""
        self._reply = reply
        self._lock.release()

    def set_exception(self, error: BaseException) -> None:
        """Take the error and wake the thread."""
        self._error = error
        self._lock.release()

    def done(self) -> bool:
        """Whether it was answered."""
        return self._reply is not None or self._error is not None

    def wait(self, timeout_s: float | None) -> bytes | None:
        """Wait for the answer; ``None`` where it did not come in time.

        Raises:
            ConnectionLostError: The connection went.
            InvalidAnswerError: The answer was too long to be taken.
        """
        if not self._lock.acquire(timeout=-1 if timeout_s is None else timeout_s):
            return None
        if self._error is not None:
            raise self._error
        return self._reply


class Connection(ClientConnection):
    """A connection on which requests are answered in the order in which they were sent."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting: deque[Answer] = deque()
        # What the server said without being asked: the reason for which it is about to close.
        self._unasked: deque[bytes] = deque()
        self._fragments: list[bytes] = []
        self._process = os.getpid()
        # Cleared, by any thread, once this side has let go of it.
        self.usable = True

    @property
    def answers(self) -> bool:
        """Whether a request would be answered, if only with what the server said before it closed."""
        return self.usable and (self.protocol.state is State.OPEN or bool(self._unasked))

    @property
    def orphaned(self) -> bool:
        """Whether its loop runs no more, or runs in the process that this one was forked from."""
        return self._process != os.getpid() or not self.loop.is_running()

    def ask(self, text: str, answer: Answer) -> None:
        """Send a request. Only the connection's own loop may call this.

        Args:
            text: The frame's text.
            answer: Learns of the answer, or of the loss of the connection.
        """
        if self._unasked:
            answer.set_result(self._unasked.popleft())
            return
        try:
            self.protocol.send_text(text.encode())
            self.send_data()
        except (InvalidState, OSError, RuntimeError):  # the last one is uvloop's for a transport that is closed
            answer.set_exception(self._lost())
        else:
            self._waiting.append(answer)

    async def exchange(self, text: str, timeout_s: float | None) -> bytes:
        """Send a request and await its answer. Cancelling is safe: a late answer is not taken for another one.

        Raises:
            ConnectionLostError: The connection went.
            InvalidAnswerError: The answer was too long to be taken.
            ResponseTimeoutError: No answer came in time. The connection is dropped.
        """
        answer: asyncio.Future[bytes] = self.loop.create_future()
        self.ask(text, answer)
        if timeout_s is None or answer.done():
            return await answer
        timer = self.loop.call_later(timeout_s, self._time_out, answer, timeout_s)
        try:
            return await answer
        finally:
            timer.cancel()

    def drop(self) -> None:
        """Close at once, without the closing handshake. Only the connection's own loop may call this."""
        self.usable = False
        self.transport.abort()

    def retire(self) -> None:
        """Let nothing be asked any more, and close soon. Any thread may call this."""
        self.usable = False
        asyncio.run_coroutine_threadsafe(self.close(), self.loop)

    async def end(self) -> None:
        """Close, from whichever loop this is called in."""
        self.usable = False
        if self.loop is asyncio.get_running_loop():
            await self.close()
        elif self.orphaned:
            self.abandon()
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.close(), self.loop))

    def abandon(self) -> None:
        """Let go of an orphaned connection. The server learns of it, unless the parent process goes on using it."""
        self.usable = False
        if self._process != os.getpid():
            _of_the_parent.append(self)
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
            return
        self._fragments.append(bytes(event.data))
        if event.fin:
            reply = b"".join(self._fragments)
            self._fragments.clear()
            self._deliver(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody who waits that no answer will come."""
        super().connection_lost(exc)
        while self._waiting:
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(self._lost())

    def _deliver(self, reply: bytes) -> None:
        if not self._waiting:
            self._unasked.append(reply)
            return
        answer = self._waiting.popleft()
        if not answer.done():  # else its caller was cancelled
            answer.set_result(reply)

    def _time_out(self, answer: asyncio.Future[bytes], timeout_s: float) -> None:
        if not answer.done():
            answer.set_exception(timed_out(timeout_s))
            self.drop()

    def _lost(self) -> OpenEnvError:
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


# To collect these in a forked child would take the parent's loop the sockets that it waits on.
_of_the_parent: list[Connection] = []


def timed_out(timeout_s: float | None) -> ResponseTimeoutError:
    """Make the error for an answer that did not come."""
    return ResponseTimeoutError(
        f"The server did not answer within {timeout_s} s (message_timeout_s). The connection was dropped, since a "
        "late answer could be taken for another one; the next call opens a new session."
    )


async def open_connection(
    url: str,
    *,
    connect_timeout_s: float,
    max_message_bytes: int,
    ping_interval_s: float | None,
    ping_timeout_s: float | None,
    headers: Mapping[str, str] | None,
) -> Connection:
    """Connect to a server.

    Args:
        url: Address of the socket, ``ws://`` or ``wss://``.
        connect_timeout_s: Seconds for the whole handshake.
        max_message_bytes: Longest message to accept.
        ping_interval_s: Seconds between pings.
        ping_timeout_s: Seconds to wait for a pong.
        headers: Further headers of the handshake.

    Raises:
        ConfigurationError: The address or a header is none.
        ConnectionFailedError: There is no server, or it refused.
    """
    try:
        connection = await connect(
            url,
            create_connection=Connection,
            open_timeout=connect_timeout_s,
            close_timeout=_CLOSE_TIMEOUT_S,
            max_size=max_message_bytes,
            ping_interval=ping_interval_s,
            ping_timeout=ping_timeout_s,
            additional_headers=headers,
            compression=None,
            # A proxy cannot reach this machine's own addresses.
            proxy=None if is_loopback(url) else True,
        )
    except (OSError, TimeoutError, WebSocketException) as error:
        raise ConnectionFailedError(f"Failed to connect to {url}: {str(error) or type(error).__name__}") from error
    except ValueError as error:
        raise ConfigurationError(f"No connection can be made to {url} with the client's settings: {error}") from error
    assert isinstance(connection, Connection)
    return connection


def is_loopback(url: str) -> bool:
    """Whether a URL's host is this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback or ip_address(host).is_unspecified
    except ValueError:
        return host == "localhost"
