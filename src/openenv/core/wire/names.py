"""Names on the wire: the subprotocol, headers and the cookie, the ids of sessions, and the variables of access."""

from collections.abc import Iterable

V1 = "openenv.v1"
"""WebSocket subprotocol of v1, which a client offers and a server chooses if it speaks v1."""

TOKEN_PROTOCOL = "openenv.token."  # noqa: S105  # its name, not a token
"""Beginning of the subprotocol with which a page sends the server's token, in base64url; a server never chooses it."""

TOKEN_VARIABLE = "OPENENV_TOKEN"  # noqa: S105  # its name, not a token
"""Environment variable with a server's token, from which servers and clients take it."""

AUTH_VARIABLE = "OPENENV_AUTH"
"""Environment variable that says which peers of a server need its token."""

AUTH_ALWAYS = "always"
"""Value of ``AUTH_VARIABLE`` with which a server requires its token of peers on its own machine, too."""

AUTH_NONE = "none"
"""Value of ``AUTH_VARIABLE`` with which a server requires no token."""

FINITE_VARIABLE = "OPENENV_FINITE"
"""Environment variable: ``1`` has a server refuse observations and states with NaN or infinity; others send null."""

API_KEY_HEADER = "X-API-Key"
"""Header with the server's token where ``Authorization`` holds a proxy's, or none as in clients of ORS."""

WORKERS_HEADER = "X-OpenEnv-Workers"
"""Header with the number of the server's processes, over which a client may spread its sockets."""

SESSIONS_HEADER = "X-OpenEnv-Sessions"
"""Header with the number of sessions for a connection to a fleet; in the answer, the number that fit."""

FEATURES_HEADER = "X-OpenEnv-Features"
"""Header of a handshake with what one side of v1 understands beyond its first version, separated by commas."""

COLUMNS = "columns"
"""Feature: messages for several sessions, with ids, sessions and data as columns."""

ARRAYS = "arrays"
"""Feature of a client: it reads binary frames, which have arrays beside JSON."""

SESSION_HEADER = "X-OpenEnv-Session"
"""Header with a session's id over HTTP and in the handshake of a client that resumes a session of v1."""

SESSION_COOKIE = "openenv_session"

ORS_HEADER = "X-Session-ID"
"""Header with the session's id of a client of ORS."""

AGENT_HEADER = "Mcp-Session-Id"
"""Header with the id of an agent's connection in MCP over HTTP, which has a session of its own."""

FORWARD = "openenv.forward"
"""Key in an ASGI scope of the function that forwards a request to the worker of the session in its body."""

# Characters of a session's id that are public; the rest is secret.
_NAME_LENGTH = 13

AFTER_WORKER = "."
"""Separator of a worker's number and the rest of a session's id."""


def features_in(headers: Iterable[str]) -> frozenset[str]:
    """Return the features that headers of a handshake name.

    Args:
        headers: The values of all headers named ``FEATURES_HEADER``.

    Example:
        >>> sorted(features_in(["columns, other"]))
        ['columns', 'other']
    """
    return frozenset(feature.strip() for header in headers for feature in header.split(",")) - {""}


def public_name(session_id: str) -> str:
    """Return the public name of a session, for readers other than its client.

    Example:
        >>> public_name("1.6f1ed002-ab5d-4c4b-9f0c-3d1c1ac0ab11")
        '1.6f1ed002-ab5d'
    """
    worker, dot, rest = session_id.rpartition(AFTER_WORKER)
    return f"{worker}{dot}{rest[:_NAME_LENGTH]}"


def worker_of(session_id: str) -> str | None:
    """Return the number of the worker that holds a session; ``None`` for an id without one.

    Example:
        >>> worker_of("1.6f1ed002-ab5d-4c4b-9f0c-3d1c1ac0ab11")
        '1'
    """
    worker, dot, _ = session_id.partition(AFTER_WORKER)
    return worker if dot else None
