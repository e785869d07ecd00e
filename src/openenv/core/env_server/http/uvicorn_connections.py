"""HTTP connections of uvicorn with limits for clients that do not finish a request, or do not read its answer.

The head of a request, the handshakes of TLS and of a WebSocket included, has to arrive within some seconds, from the
connection on or, on one that is kept open, from the request's first byte. A body has to arrive at a minimum
rate, and an answer has to be read at that rate. Between requests, uvicorn's own ``timeout_keep_alive`` applies; on a
WebSocket, its pings do.

A process has a limit of open files. Near that limit, a new connection replaces the one that has been idle for longest,
so that connections without a request, and sockets without a session, keep no client out.
"""

import asyncio
import logging
import math
import resource
import ssl
from http import HTTPStatus
from typing import Any, ClassVar, Final, Protocol

from uvicorn.config import Config
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.server import ServerState

from openenv.core.env_server.http.bounded_transport import SLOWEST_BYTES_PER_S, BoundedTransport
from openenv.core.env_server.settings import ServerConfig

logger = logging.getLogger(__name__)

HTTP: Final = f"{__name__}:TimedRequests"
"""Value of uvicorn's setting ``http`` for a server with the default limits."""

# Limit on the head of a request, in bytes, while it is incomplete.
_LARGEST_HEAD = 64 * 1024
# Share of the open files that connections leave to the rest of the process, and the most that they leave to it.
_RESERVED_SHARE = 4
_MOST_RESERVED = 256
# asyncio's limit on the end of TLS would cut off a client that reads slowly; ``BoundedTransport`` limits that time.
_END_OF_TLS_S = 24 * 3600.0


class _Cycle(Protocol):
    """Request and response in both of uvicorn's implementations of HTTP."""

    more_body: bool
    response_started: bool
    response_complete: bool


class _Flow(Protocol):
    read_paused: bool


class TimedRequests(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # one of two classes
    """HTTP connection with time limits.

    Attributes:
        header_timeout_s: Seconds for the head of a request; ``None`` for no limit.
        body_timeout_s: Seconds for its body, plus one for each ``SLOWEST_BYTES_PER_S`` received, and for the client to
            read as many bytes of its answer; ``None`` for no limit.
        tls: Certificate and settings of TLS, which the connection starts itself, so that its limits hold from the
            beginning; ``None`` for no TLS, or for one that is below already.
    """

    header_timeout_s: ClassVar[float | None] = ServerConfig.header_timeout_s
    body_timeout_s: ClassVar[float | None] = ServerConfig.body_timeout_s
    tls: ClassVar[ssl.SSLContext | None] = None

    connections: set[Any]
    cycle: _Cycle | None
    flow: _Flow
    loop: asyncio.AbstractEventLoop
    transport: BoundedTransport

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._timer: asyncio.TimerHandle | None = None
        self._waits_for_body = False
        self._began_at = 0.0
        self._body_bytes = 0
        self._head_bytes = 0
        self._upgraded = False
        self._is_refused = False  # from the beginning, where there was no room
        self._idle_since = self.loop.time()
        self._tls_start: asyncio.Task[None] | None = None  # from a client's first bytes until TLS has been started
        self._early = b""  # received while TLS is started: before that encrypted, after that not

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time limit of the first request."""
        super().connection_made(BoundedTransport(transport, self.loop, self.body_timeout_s))
        if len(self.connections) > most_connections():
            self._make_room()
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request, or the beginning of TLS."""
        if self.tls is not None and self.transport.carrier is None:
            self._early += data
            if self._tls_start is None:
                self._tls_start = self.loop.create_task(self._start_tls(self.tls))
            return
        self._head_bytes += len(data)
        self._body_bytes += len(data)
        if self._is_refused:  # only now: a client may take an answer before its request for an error of the protocol
            text = "This server has as many connections as it may have; try later."
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, text)
            return
        super().data_received(data)
        self._watch()
        if self._timer is not None and not self._waits_for_body and self._head_bytes > _LARGEST_HEAD:
            self._refuse(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"Expected a head of at most {_LARGEST_HEAD} bytes, got more.",
            )

    def pause_writing(self) -> None:
        """Bound the time that the client has to read."""
        super().pause_writing()
        self.transport.watch()

    def resume_writing(self) -> None:
        """Stop that time limit."""
        super().resume_writing()
        self.transport.stop()

    def handle_websocket_upgrade(self, *arguments: Any) -> None:
        """Stop the time limit: the connection becomes a WebSocket."""
        self._upgraded = True
        self.transport.stop()
        super().handle_websocket_upgrade(*arguments)

    def on_response_complete(self) -> None:
        """Wait for the next request, with uvicorn's own timeout."""
        self._stop_timer()
        self._head_bytes = 0
        self._idle_since = self.loop.time()
        super().on_response_complete()
        if self.cycle is not None and not self.cycle.response_complete:  # a pipelined request
            self._watch()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, unless that follows an answer to its request: then only close."""
        if self.cycle is not None and self.cycle.more_body and self.cycle.response_started:
            self._stop_timer()
            self.transport.close()
        else:
            self._refuse(HTTPStatus.BAD_REQUEST, msg)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limit."""
        self._stop_timer()
        super().connection_lost(exc)

    @property
    def _waits_for_head(self) -> bool:
        """True while no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def idle_since(self) -> float | None:
        """Since when the connection waits for a request, in seconds of the event loop; ``None`` if it does not."""
        return self._idle_since if self._waits_for_head and not self.transport.is_closing() else None

    async def _start_tls(self, context: ssl.SSLContext) -> None:
        """Start TLS; the time for a request's head includes it. A client that leaves meanwhile ends the connection."""
        carrier, transport = self.transport.inner, None
        carrier.pause_reading()
        starting = self.loop.create_task(
            self.loop.start_tls(
                carrier,
                self,
                context,
                server_side=True,
                ssl_handshake_timeout=self.header_timeout_s,
                ssl_shutdown_timeout=_END_OF_TLS_S,
            )
        )
        while carrier.get_protocol() is self and not starting.done():  # noqa: ASYNC110  # no event announces it
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # callbacks run in order: TLS was connected by one from when it became the protocol
        hello, self._early = self._early, b""
        if not carrier.is_closing() and not starting.done():
            _receive(carrier.get_protocol(), hello)
        try:
            transport = await starting
        except OSError as error:
            logger.debug("a connection ended before TLS was started: %s", error)
        if transport is None or transport.is_closing():  # TLS does not report an end before it was started
            self.connection_lost(None)
            return
        super().connection_made(BoundedTransport(transport, self.loop, self.body_timeout_s, carrier))
        if self._early:
            self.data_received(self._early)

    def _make_room(self) -> None:
        """Close the connection that has been idle for longest; without any, refuse the request of this one."""
        idle = {each: since for each in self.connections - {self} if (since := each.idle_since) is not None}
        if idle:
            min(idle, key=idle.__getitem__).transport.abort()
            return
        count = len(self.connections) - 1
        logger.warning("refused a connection: %d are open, which leaves few files to this process (ulimit -n)", count)
        self._is_refused = True

    def _watch(self) -> None:
        """Run a timer while a part of the request is missing."""
        if self._upgraded or self.transport.is_closing():
            self._stop_timer()
            return
        waits_for_head = self._waits_for_head
        if not waits_for_head and not (self.cycle is not None and self.cycle.more_body):
            self._stop_timer()
        elif self._timer is None or self._waits_for_body is waits_for_head:
            self._stop_timer()
            self._start_timer(for_body=not waits_for_head)

    def _start_timer(self, *, for_body: bool) -> None:
        timeout_s = self.body_timeout_s if for_body else self.header_timeout_s
        self._waits_for_body = for_body
        self._began_at = self.loop.time()
        self._body_bytes = 0
        if timeout_s is not None:
            self._timer = self.loop.call_later(timeout_s, self._time_is_up, timeout_s)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_is_up(self, timeout_s: float) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self._waits_for_body:
            if self.flow.read_paused:  # the application is slow, not the client
                self._start_timer(for_body=True)
                return
            left_s = self._began_at + timeout_s + self._body_bytes / SLOWEST_BYTES_PER_S - self.loop.time()
            if left_s > 0:
                self._timer = self.loop.call_later(left_s, self._time_is_up, timeout_s)
                return
        self._give_up(timeout_s)

    def _give_up(self, timeout_s: float) -> None:
        """Close the connection, with an error response if the client awaits one."""
        what = "body" if self._waits_for_body else "head"
        logger.info("a client did not send the %s of its request within %g s", what, timeout_s)
        responding = self._waits_for_body and self.cycle is not None and self.cycle.response_started
        if not self._head_bytes or responding:
            self.transport.close()
            return
        setting = "body_timeout_s" if self._waits_for_body else "header_timeout_s"
        text = f"Expected the {what} of the request within {timeout_s:g} s ({setting}); it was not received."
        self._refuse(HTTPStatus.REQUEST_TIMEOUT, text)

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        """Answer with an error, and close the connection."""
        self._stop_timer()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n"
            f"connection: close\r\ncontent-length: {len(text)}\r\n\r\n"
        )
        self.transport.write((head + text).encode("ascii"))
        self.transport.close()


def _receive(protocol: asyncio.BufferedProtocol, data: bytes) -> None:
    """Hand data to a protocol."""
    while data:
        buffer = memoryview(protocol.get_buffer(len(data)))
        part = data[: len(buffer)]
        buffer[: len(part)] = part
        protocol.buffer_updated(len(part))
        data = data[len(part) :]


def most_connections() -> float:
    """Return the number of connections that leave some of this process's open files to the rest of it."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return math.inf if files == resource.RLIM_INFINITY else files - min(files // _RESERVED_SHARE, _MOST_RESERVED)


def timed_requests(limits: ServerConfig) -> type[TimedRequests]:
    """Return the class of connections with a server's limits, for uvicorn's setting ``http``."""
    times = {"header_timeout_s": limits.header_timeout_s, "body_timeout_s": limits.body_timeout_s}
    return type("TimedRequests", (TimedRequests,), times)
