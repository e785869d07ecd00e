"""States of a session and phases of its episode."""

from enum import Enum


class SessionState(Enum):
    """State of a session: whether a socket is attached, and whether the session still accepts requests."""

    OPEN = "open"
    """Requests with the session's id are accepted; the session is closed after its idle timeout."""
    ATTACHED = "attached"
    """A legacy socket is attached to the session by its id."""
    DETACHED = "detached"
    """The client's socket has closed, and the client may resume the session within the resume window."""
    CLOSING = "closing"
    """The session is closed when its socket detaches, or when the request under way has ended."""
    CLOSED = "closed"
    """The session refuses all requests."""


class Phase(Enum):
    """Phase of a session's episode."""

    NEW = "new"
    PLAYING = "playing"
    DONE = "done"
