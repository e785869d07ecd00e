"""Sessions and connections of named tokens, closed once the file has the token no more, or its role allows less."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openenv.core.env_server.access.tokens import NamedToken, Role, TokenFile, needed_role

logger = logging.getLogger(__name__)

# Seconds between two looks at the tokens, while something is open.
_INTERVAL_S = 1.0
_POLICY_VIOLATION = 1008


class TokenUse:
    """Session or connection that a client has open with a named token.

    Args:
        name: Name of the token.
        role: Role that it needs; ``None`` where each role allows it.
        close: Closes it; is called with the reason, once.
        digest: SHA-256 of the token that the client showed; ``None`` where any later token of the name serves.
    """

    __slots__ = ("_digest", "_role", "close", "name")

    def __init__(self, name: str, role: Role | None, close: Callable[[str], None], digest: bytes | None = None) -> None:
        self.name = name
        self.close = close
        self._role = role
        self._digest = digest

    def refusal(self, token: NamedToken | None) -> str | None:
        """Return why it may not stay open; ``None`` if it may.

        Args:
            token: The token that the name has now; ``None`` for none.
        """
        if token is None or self._digest not in (None, token.digest):
            return f"The token {self.name} was removed."
        if not token.allows(self._role):
            return f"The token {self.name} has the role {token.role} now."
        return None


class TokenUses:
    """Sessions and connections that clients of a server have open with named tokens.

    Args:
        tokens: The tokens, which are looked at each second while something is open.
    """

    def __init__(self, tokens: TokenFile) -> None:
        self._tokens = tokens
        self._open: dict[TokenUse, None] = {}  # a set in the order of insertion
        self._timer: asyncio.TimerHandle | None = None  # while something is open

    def begin(self, use: TokenUse) -> None:
        """Add something that was opened."""
        self._open[use] = None
        if self._timer is None:
            self._wait()

    def end(self, use: TokenUse) -> None:
        """Remove something that has ended; no effect if it was removed before."""
        self._open.pop(use, None)
        if not self._open and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def watch_player(self, name: str, close: Callable[[str], None]) -> Callable[[], None]:
        """Have a client's session closed once its token may not play.

        Args:
            name: Name of the token.
            close: Closes the session; is called with the reason.

        Returns:
            What to call when the session has ended before.
        """
        use = TokenUse(name, Role.PLAY, close)
        self.begin(use)
        return partial(self.end, use)

    async def serve(self, token: NamedToken, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of a client that shows a token; its socket or stream is closed once it may not have it.

        A request with another answer than a stream of events goes on to its end.

        Args:
            token: The token.
            app: The application.
            scope: ASGI's description of the request.
            receive: The request's ``receive``.
            send: The request's ``send``.
        """
        if scope["type"] == "websocket":
            socket = _Socket(send)
            use = TokenUse(token.name, needed_role(scope), socket.close, token.digest)
            self.begin(use)
            try:
                await app(scope, receive, send)
            finally:
                self.end(use)
        else:
            await _Stream(self, token, scope, send).serve(app, receive)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_INTERVAL_S, self._look)

    def _look(self) -> None:
        refused = [(use, self._tokens.get(use.name)) for use in self._open]
        for use, token in reversed(refused):  # a session before its connection, whose end would be its own
            reason = use.refusal(token)
            if reason is not None and use in self._open:
                del self._open[use]
                use.close(reason)
        self._timer = None
        if self._open:
            self._wait()


class _Socket:
    """WebSocket that a client has open with a named token.

    Args:
        send: Its ``send``.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._closing: asyncio.Task[None] | None = None

    def close(self, reason: str) -> None:
        """Close the socket; the application then receives that it is disconnected."""
        logger.info("closed a WebSocket: %s", reason)
        self._closing = asyncio.get_running_loop().create_task(self._send_close(reason))

    async def _send_close(self, reason: str) -> None:
        with suppress(OSError, RuntimeError):  # it has closed meanwhile
            await self._send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": reason})


class _Stream:
    """HTTP request of a client that shows a named token, whose answer may be a stream of events.

    Args:
        uses: What is open with named tokens.
        token: The token.
        scope: ASGI's description of the request.
        send: The request's ``send``.
    """

    def __init__(self, uses: TokenUses, token: NamedToken, scope: Scope, send: Send) -> None:
        self._uses = uses
        self._scope = scope
        self._send = send
        self._use = TokenUse(token.name, needed_role(scope), self._close, token.digest)
        self._task = asyncio.current_task()
        self._reason: str | None = None  # why the stream was closed

    async def serve(self, app: ASGIApp, receive: Receive) -> None:
        """Serve the request; a stream that is closed ends with a comment that says why."""
        try:
            await app(self._scope, receive, self._send_on)
        except asyncio.CancelledError:
            if self._reason is None or self._task is None or self._task.uncancel() > 0:
                raise
            with suppress(OSError):  # the client has gone
                await self._send({"type": "http.response.body", "body": f": {self._reason}\n\n".encode()})
        finally:
            self._uses.end(self._use)

    async def _send_on(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            kind = Headers(raw=message["headers"]).get("content-type", "")
            if kind.startswith("text/event-stream"):
                self._uses.begin(self._use)
        await self._send(message)

    def _close(self, reason: str) -> None:
        logger.info("closed a stream of events: %s", reason)
        self._reason = reason
        if self._task is not None:
            self._task.cancel()
