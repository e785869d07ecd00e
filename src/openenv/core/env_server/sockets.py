"""WebSockets as uvicorn has them, but for clients that read no more or that leave as the server ends."""

from typing import Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.protocol import State

SOCKETS: Final = f"{__name__}:DecisiveSockets"
"""What uvicorn's setting ``ws`` takes."""

_TIME_TO_READ_S = 5.0


class DecisiveSockets(WebSocketsSansIOProtocol):
    """Closes a socket also where its client leaves unread what it was sent.

    uvicorn closes a socket once everything was sent. A client that is stopped, or whose cable was pulled out, would
    keep its socket for as long as the kernel tries, and the session with it, which learns of the end only then.
    """

    def keepalive_timeout(self) -> None:
        """Let go of a client that has not answered a ping."""
        super().keepalive_timeout()
        self.transport.abort()

    def handle_close(self, event: Frame) -> None:
        """Say goodbye to a client that has done so."""
        super().handle_close(event)
        self._close_in_time()

    def handle_parser_exception(self) -> None:
        """Let go of a client that has sent what is no frame."""
        super().handle_parser_exception()
        self._close_in_time()

    def shutdown(self) -> None:
        """Close it as the server ends. uvicorn fails on one whose client has said goodbye and is being answered."""
        if self.handshake_complete and self.conn.state is not State.OPEN:
            self.stop_keepalive()
            self.transport.abort()  # TLS would wait for the client's own end
        else:
            super().shutdown()

    def _close_in_time(self) -> None:
        """Have a client read what is left for it within some seconds."""
        if self.transport.is_closing() and self.transport.get_write_buffer_size() > 0:
            self.loop.call_later(_TIME_TO_READ_S, self.transport.abort)
