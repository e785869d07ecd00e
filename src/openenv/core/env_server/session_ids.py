"""The ids of sessions: where requests name them, what others may read of them, and which worker holds them."""

SESSION_HEADER = "X-OpenEnv-Session"
"""Names a session over HTTP and, where a client takes up a session of v1, in the handshake."""

SESSION_COOKIE = "openenv_session"

ORS_HEADER = "X-Session-ID"
"""Names the session of a client of ORS."""

AGENT_HEADER = "Mcp-Session-Id"
"""Names the connection of an agent that speaks MCP over HTTP; it has a session of its own."""

HAND_ON = "openenv.hand_on"
"""Where a scope has what hands a call on to the worker of the session that its body names, if there are workers."""

# Characters of a session's id that anybody may read; the rest is what makes the id hard to guess.
_NAME_LENGTH = 13

AFTER_WORKER = "."
"""Stands between a worker's number and the rest of a session's id."""


def public_name(session_id: str) -> str:
    """Return what a session is called where others than its client read it.

    Example:
        >>> public_name("1.6f1ed002-ab5d-4c4b-9f0c-3d1c1ac0ab11")
        '1.6f1ed002-ab5d'
    """
    worker, dot, rest = session_id.rpartition(AFTER_WORKER)
    return f"{worker}{dot}{rest[:_NAME_LENGTH]}"


def worker_of(session_id: str) -> str | None:
    """Return the number of the worker that holds a session; ``None`` where its id names none.

    Example:
        >>> worker_of("1.6f1ed002-ab5d-4c4b-9f0c-3d1c1ac0ab11")
        '1'
    """
    worker, dot, _ = session_id.partition(AFTER_WORKER)
    return worker if dot else None
