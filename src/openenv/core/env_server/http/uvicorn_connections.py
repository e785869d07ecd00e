"""HTTP connections of uvicorn with limits for clients that do not finish a request, or do not read its answer.

The head of a request, a WebSocket's handshake included, has to arrive within some seconds, counted from the connection
or, on a connection that is kept open, from the request's first byte. A body has to arrive at a minimum rate, and an
answer has to be read at that rate. Between requests, uvicorn's own ``timeout_keep_alive`` applies; on a WebSocket, its
pings do.

A process has a limit of open files. Near that limit, a new connection replaces the one that has been idle for longest,
so that connections without a request, and sockets without a session, keep no client out.
"""

import asyncio
import logging
import math
import resource
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
    """

    header_timeout_s: ClassVar[float | None] = ServerConfig.header_timeout_s
    body_timeout_s: ClassVar[float | None] = ServerConfig.body_timeout_s

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

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time limit of the first request."""
        super().connection_made(BoundedTransport(transport, self.loop, self.body_timeout_s))
        if len(self.connections) > most_connections():
            self._make_room()
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request."""
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


def most_connections() -> float:
    """Return the number of connections that leave some of this process's open files to the rest of it."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return math.inf if files == resource.RLIM_INFINITY else files - min(files // _RESERVED_SHARE, _MOST_RESERVED)


def timed_requests(limits: ServerConfig) -> type[asyncio.Protocol]:
    """Return the class of connections with a server's limits, for uvicorn's setting ``http``."""
    times = {"header_timeout_s": limits.header_timeout_s, "body_timeout_s": limits.body_timeout_s}
    made: type[asyncio.Protocol] = type("TimedRequests", (TimedRequests,), times)
    return made
