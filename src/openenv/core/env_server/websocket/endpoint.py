"""WebSocket transport at ``/ws``: v1 for clients that offer it, else the legacy wire.

The transport is an ASGI application and not a FastAPI route, because each layer between the socket and the session
costs every step some microseconds.
"""

import logging
from typing import Any
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from openenv.core.env_server.access.clients import ClientLimits
from openenv.core.env_server.access.peer import LOOPBACK, peer_address
from openenv.core.env_server.history import Journal
from openenv.core.env_server.resumption.registry import ResumableSessions
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.websocket.connection import SOCKET_USE, Connection, ReadAhead, Wire
from openenv.core.env_server.websocket.legacy import LegacyWire
from openenv.core.env_server.websocket.v1 import V1Wire
from openenv.core.wire.names import ARRAYS, COLUMNS, FEATURES_HEADER, V1, WORKERS_HEADER, features_in
from openenv.core.wire.types import ServerMode

logger = logging.getLogger(__name__)

_FEATURES_HEADER = FEATURES_HEADER.lower().encode()
_NO_LIMITS = (
    "This application runs on a server that does not limit connections, as `uvicorn MODULE:app` does by itself: "
    "clients without a token can hold all that it may have. Start it with `openenv serve` or the package's command "
    "`server`, or give uvicorn --http and --ws as in docs/serving.md."
)


class SocketTransport:
    """Transport for sockets.

    Args:
        sessions: Opens the sessions.
        clients: Limits of the clients.
        max_message_bytes: Maximum length of a message, in bytes of UTF-8.
    """

    def __init__(self, sessions: SessionManager, clients: ClientLimits, max_message_bytes: int) -> None:
        self._sessions = sessions
        self._clients = clients
        self._max_message_bytes = max_message_bytes
        self._read_ahead = ReadAhead()
        # Whether the log has the warning of a server without limits for connections.
        self._has_warned = False

    async def _serve(
        self, wire: Wire[Any, Any], scope: Scope, receive: Receive, send: Send, subprotocol: str | None = None
    ) -> None:
        """Accept a socket and serve it."""
        chosen = {} if subprotocol is None else {"subprotocol": subprotocol}
        try:
            await send({"type": "websocket.accept", **chosen, "headers": self._headers(subprotocol)})
        except (OSError, RuntimeError) as error:  # RuntimeError: raised by uvicorn
            logger.info("a client went during the handshake: %s", error)
            return
        metrics, limit = self._sessions.metrics, self._max_message_bytes
        use = scope.get("state", {}).get(SOCKET_USE)
        if use is None and not self._has_warned and peer_address(scope) != LOOPBACK:
            self._has_warned = True
            logger.warning(_NO_LIMITS)
        await Connection(wire, receive, send, metrics, limit, self._read_ahead, use).serve()

    def _headers(self, subprotocol: str | None) -> list[tuple[bytes, bytes]]:
        count = self._sessions.worker_count
        headers = [(WORKERS_HEADER.lower().encode(), str(count).encode())] if count > 1 else []
        return [*headers, (_FEATURES_HEADER, f"{COLUMNS}, {ARRAYS}".encode())] if subprotocol == V1 else headers


class WebSocketTransport(SocketTransport):
    """Transport at ``/ws``, for v1 and the legacy wire.

    Args:
        sessions: Opens the sessions.
        clients: Limits of the clients.
        max_message_bytes: Maximum length of a message, in bytes of UTF-8.
        mode: In production mode, only messages of agents, of type ``mcp``, are carried out.
        journal: Journal for recovery of v1 sessions after the process has ended; ``None`` for no recovery.

    Attributes:
        registry: The resumable sessions of v1.
    """

    def __init__(
        self,
        sessions: SessionManager,
        clients: ClientLimits,
        max_message_bytes: int,
        mode: ServerMode = ServerMode.SIMULATION,
        journal: Journal | None = None,
    ) -> None:
        super().__init__(sessions, clients, max_message_bytes)
        self._for_agents_only = mode is ServerMode.PRODUCTION
        self.registry = ResumableSessions(sessions, max_message_bytes, journal)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one socket, from handshake to close."""
        await receive()  # websocket.connect
        session_id = parse_qs(scope["query_string"].decode("latin-1")).get("session_id", [None])[0]
        client = peer_address(scope)
        rate = self._clients.rate_of_socket(client)
        if V1 in scope["subprotocols"] and session_id is None:
            features = _features_of(scope)
            v1 = V1Wire(
                self.registry,
                client,
                rate,
                for_agents_only=self._for_agents_only,
                columns=COLUMNS in features,
                takes_arrays=ARRAYS in features,
            )
            await self._serve(v1, scope, receive, send, V1)
        else:
            legacy = LegacyWire(self._sessions, client, rate, session_id, for_agents_only=self._for_agents_only)
            await self._serve(legacy, scope, receive, send)


def _features_of(scope: Scope) -> frozenset[str]:
    return features_in(value.decode("latin-1") for name, value in scope.get("headers", ()) if name == _FEATURES_HEADER)
