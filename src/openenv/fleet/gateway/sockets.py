"""WebSockets that a fleet forwards to one of its servers, message by message: those of pages in a browser.

Browsers follow no redirect of a WebSocket, so a page reaches no server by itself. All other clients do.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol

from openenv.core.env_server.access.guard import answer_handshake
from openenv.core.env_server.access.peer import TOKEN_NAME
from openenv.core.env_server.tls import TLS
from openenv.core.wire.names import TOKEN_PROTOCOL
from openenv.fleet.gateway.forwarding import address_of, headers_for_server, no_server, trust_in
from openenv.fleet.replica import Replica

logger = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S = 10.0
# For a client that has closed its socket: how long its close code may need to the server.
_CLOSE_TIMEOUT_S = 2.0
_SERVICE_RESTART = 1012


def is_of_page(scope: Scope) -> bool:
    """Return whether a script of a page opens a WebSocket: browsers name the page's origin, other clients need not."""
    return "origin" in Headers(scope=scope)


class SocketForwarding:
    """Forwards WebSockets."""

    def __init__(self, token: str | None, tls: TLS | None) -> None:
        self._is_https = tls is not None
        self._settings: dict[str, Any] = {"ssl": trust_in(tls)} if self._is_https else {}
        self._credentials = [] if token is None else [("authorization", f"Bearer {token}")]

    async def forward(self, replica: Replica, scope: Scope, receive: Receive, send: Send) -> None:
        """Connect a client to a server, or answer its handshake with the reason why not."""
        try:
            server = await self._connect(replica, scope)
        except InvalidStatus as error:
            refusal = error.response
            answer = Response(
                bytes(refusal.body or b""), refusal.status_code, media_type=refusal.headers.get("content-type")
            )
            await answer_handshake(answer, scope, receive, send)
        except InvalidURI as error:
            await answer_handshake(Response(f"The address can't be forwarded: {error}", 400), scope, receive, send)
        except (OSError, InvalidHandshake) as error:
            logger.info("%s could not be reached: %r", replica, error)
            await answer_handshake(no_server(), scope, receive, send)
        else:
            await receive()  # websocket.connect
            await _SocketForwarder(server, receive, send).run()

    async def _connect(self, replica: Replica, scope: Scope) -> ClientConnection:
        query = scope["query_string"].decode("latin-1")
        address = address_of(replica, https=self._is_https).replace("http", "ws", 1)
        offered = [Subprotocol(name) for name in scope["subprotocols"] if not _is_for_the_guard(name, scope)]
        headers = headers_for_server(scope, self._credentials)
        return await connect(
            f"{address}{scope['path']}{'?' if query else ''}{query}",
            subprotocols=offered or None,
            additional_headers=[pair for pair in headers if not pair[0].startswith("sec-websocket-")],
            user_agent_header=None,
            compression=None,
            proxy=None,
            open_timeout=_CONNECT_TIMEOUT_S,
            ping_timeout=None,  # pongs wait while the page does not read; the pings still find a machine that is gone
            max_size=None,  # the limits are the server's
            **self._settings,
        )


def _is_for_the_guard(subprotocol: str, scope: Scope) -> bool:
    """Return whether a subprotocol is a page's token that its server does not get, as it is no named one."""
    return subprotocol.startswith(TOKEN_PROTOCOL) and TOKEN_NAME not in scope


class _SocketForwarder:
    """Messages of a client to its server, and of the server to the client, until one of them closes its socket."""

    def __init__(self, server: ClientConnection, receive: Receive, send: Send) -> None:
        self._server = server
        self._receive = receive
        self._send = send

    async def run(self) -> None:
        """Accept the client's socket, and forward until either end has gone."""
        upwards: asyncio.Task[None] | None = None
        try:
            await self._send({"type": "websocket.accept", "subprotocol": self._server.subprotocol})
            upwards = asyncio.create_task(self._carry_up())
            await self._carry_down()
        except (OSError, RuntimeError) as error:  # which ASGI servers raise on a send to a client that has disconnected
            logger.debug("a client has gone: %s", error)
            if upwards is not None:  # it may be about to send the client's close code
                await asyncio.wait([upwards], timeout=_CLOSE_TIMEOUT_S)
        finally:
            if upwards is not None:
                upwards.cancel()
                await asyncio.gather(upwards, return_exceptions=True)
            self._server.transport.abort()

    async def _carry_up(self) -> None:
        """Send the client's messages, until it closes its socket; then close the other one in the same way."""
        with suppress(ConnectionClosed):  # of which _carry_down() tells the client
            while (event := await self._receive())["type"] == "websocket.receive":
                text = event.get("text")
                await self._server.send(event["bytes"] if text is None else text)
            await self._close_server(event["code"], event.get("reason") or "")

    async def _close_server(self, code: int, reason: str) -> None:
        """Close the socket to the server. A client that has sent no close may come back to its sessions."""
        if _is_sendable(code):
            await self._server.close(code, reason)
        else:
            self._server.transport.abort()

    async def _carry_down(self) -> None:
        """Send the server's messages, until it closes its socket; then close the client's in the same way."""
        try:
            while True:
                message = await self._server.recv()
                kind = "text" if isinstance(message, str) else "bytes"
                await self._send({"type": "websocket.send", kind: message})
        except ConnectionClosed:
            code = self._server.close_code
            is_sendable = code is not None and _is_sendable(code)
            reason = self._server.close_reason or ""
            await self._send(
                {"type": "websocket.close", "code": code if is_sendable else _SERVICE_RESTART, "reason": reason}
            )


def _is_sendable(code: int) -> bool:
    """Return whether a close frame may have a code; the others stand for a socket that ended without one."""
    return code not in (1004, 1005, 1006, 1015)
