"""HTTP connections of uvicorn with time limits for a client that begins a request and does not finish it.

The head of a request, a WebSocket's handshake included, has to arrive within some seconds, counted from the connection
or, on a connection that is kept open, from the request's first byte. A body has to arrive at a minimum rate. Between
requests, uvicorn's own ``timeout_keep_alive`` applies; on a WebSocket, its pings do.
"""

import asyncio
import logging
from typing import Any, ClassVar, Final, Protocol

from uvicorn.config import Config
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.server import ServerState

from openenv.core.env_server.settings import ServerConfig

logger = logging.getLogger(__name__)

HTTP: Final = f"{__name__}:TimedRequests"
"""Value of uvicorn's setting ``http`` for a server with the default limits."""

# Minimum rate of a body: each such number of bytes extends its time limit by a second.
SLOWEST_BYTES_PER_S = 1024


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
        body_timeout_s: Seconds for its body, plus one for each ``SLOWEST_BYTES_PER_S`` received; ``None`` for no limit.
    """

    header_timeout_s: ClassVar[float | None] = ServerConfig.header_timeout_s
    body_timeout_s: ClassVar[float | None] = ServerConfig.body_timeout_s

    cycle: _Cycle | None
    flow: _Flow
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport

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
        self._head_begun = False
        self._upgraded = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time limit of the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request."""
        self._head_begun = True
        self._body_bytes += len(data)
        super().data_received(data)
        self._watch()

    def handle_websocket_upgrade(self, *arguments: Any) -> None:
        """Stop the time limit: the connection becomes a WebSocket."""
        self._upgraded = True
        super().handle_websocket_upgrade(*arguments)

    def on_response_complete(self) -> None:
        """Wait for the next request, with uvicorn's own timeout."""
        self._stop_timer()
        self._head_begun = False
        super().on_response_complete()
        if self.cycle is not None and not self.cycle.response_complete:  # a pipelined request
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limit."""
        self._stop_timer()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Run a timer while a part of the request is missing."""
        if self._upgraded or self.transport.is_closing():
            self._stop_timer()
            return
        cycle = self.cycle
        waits_for_head = cycle is None or cycle.response_complete
        if not waits_for_head and not (cycle is not None and cycle.more_body):
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
        if self._head_begun and not responding:
            setting = "body_timeout_s" if self._waits_for_body else "header_timeout_s"
            text = (
                f"Expected the {what} of the request within {timeout_s:g} s ({setting}); it was not received.".encode()
            )
            self.transport.write(
                b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
                b"content-length: %d\r\n\r\n%b" % (len(text), text)
            )
        self.transport.close()


def timed_requests(limits: ServerConfig) -> type[asyncio.Protocol]:
    """Return the class of connections with a server's limits, for uvicorn's setting ``http``."""
    times = {"header_timeout_s": limits.header_timeout_s, "body_timeout_s": limits.body_timeout_s}
    made: type[asyncio.Protocol] = type("TimedRequests", (TimedRequests,), times)
    return made
