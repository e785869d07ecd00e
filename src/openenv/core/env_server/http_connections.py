"""HTTP as uvicorn has it, but with time limits for a client that begins a request and does not go on.

The head of a request, a WebSocket's handshake included, has to come within some seconds, counted from the connection
or, on one that is kept open, from the request's first byte. A body has to come at some pace. In between, a connection
is closed after uvicorn's own ``timeout_keep_alive``; one that has become a WebSocket is left to its pings.
"""

import asyncio
import logging
from typing import Any, ClassVar, Final, Protocol

from uvicorn.config import Config
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.server import ServerState

from openenv.core.env_server.limits import Limits

logger = logging.getLogger(__name__)

HTTP: Final = f"{__name__}:TimedRequests"
"""What uvicorn's setting ``http`` takes, for a server with the default limits."""

# What a slow client sends in a second; each such number of bytes of a body grants it a second more.
SLOWEST_BYTES_PER_S = 1024


class _Cycle(Protocol):
    """A request and its response, as both of uvicorn's implementations of HTTP have it."""

    more_body: bool
    response_started: bool
    response_complete: bool


class _Flow(Protocol):
    read_paused: bool


class TimedRequests(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # one of two classes
    """One HTTP connection.

    Attributes:
        header_timeout_s: Seconds for the head of a request; ``None`` for any number.
        body_timeout_s: Seconds for its body, beside one for each ``SLOWEST_BYTES_PER_S`` that have come; ``None`` for
            any number.
    """

    header_timeout_s: ClassVar[float | None] = Limits.header_timeout_s
    body_timeout_s: ClassVar[float | None] = Limits.body_timeout_s

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
        """Wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        self._head_begun = True
        self._body_bytes += len(data)
        super().data_received(data)
        self._watch()

    def handle_websocket_upgrade(self, *arguments: Any) -> None:
        """Leave the connection to the WebSocket that it becomes."""
        self._upgraded = True
        super().handle_websocket_upgrade(*arguments)

    def on_response_complete(self) -> None:
        """Wait for the next request, as long as uvicorn does."""
        self._stop_timer()
        self._head_begun = False
        super().on_response_complete()
        if self.cycle is not None and not self.cycle.response_complete:  # a request that had come before
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_timer()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Have a timer run as long as the client owes a part of its request."""
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
            if self.flow.read_paused:  # it is the application that takes its time
                self._start_timer(for_body=True)
                return
            left_s = self._began_at + timeout_s + self._body_bytes / SLOWEST_BYTES_PER_S - self.loop.time()
            if left_s > 0:
                self._timer = self.loop.call_later(left_s, self._time_is_up, timeout_s)
                return
        self._give_up(timeout_s)

    def _give_up(self, timeout_s: float) -> None:
        """Close the connection, and say why where the client would take it for an answer to its request."""
        what = "body" if self._waits_for_body else "head"
        logger.info("a client did not send the %s of its request within %g s", what, timeout_s)
        responding = self._waits_for_body and self.cycle is not None and self.cycle.response_started
        if self._head_begun and not responding:
            setting = "body_timeout_s" if self._waits_for_body else "header_timeout_s"
            text = f"Expected the {what} of the request within {timeout_s:g} s ({setting}); it has not come.".encode()
            self.transport.write(
                b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
                b"content-length: %d\r\n\r\n%b" % (len(text), text)
            )
        self.transport.close()


def timed_requests(limits: Limits) -> type[asyncio.Protocol]:
    """Make the class of connections that keeps to a server's limits, for uvicorn's setting ``http``."""
    times = {"header_timeout_s": limits.header_timeout_s, "body_timeout_s": limits.body_timeout_s}
    made: type[asyncio.Protocol] = type("TimedRequests", (TimedRequests,), times)
    return made
