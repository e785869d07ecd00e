"""What a server grants."""

import math
from dataclasses import dataclass

from openenv.core.exceptions import ConfigurationError

MEBIBYTE = 1024 * 1024
_ABOVE_0_OR_NONE = (
    "idle_timeout_s",
    "reset_timeout_s",
    "step_timeout_s",
    "max_messages_per_s",
    "header_timeout_s",
    "body_timeout_s",
)


@dataclass(frozen=True)
class Limits:
    """What a server grants. Times are in seconds; ``None`` is no limit.

    Attributes:
        max_sessions: Sessions open at once.
        idle_timeout_s: Time without a request after which a session is closed.
        reset_timeout_s: Time for one ``reset``.
        step_timeout_s: Time for one ``step``.
        resume_window_s: Time for which a session of v1 is kept whose socket has gone; 0 for none.
        max_sessions_per_client: Sessions that clients from one address may have open at once; ``None`` for any number.
        max_messages_per_s: Messages that may come over one WebSocket, or from one address over HTTP, in a second;
            ``None`` for any number.
        max_wait_s: Longest time that a client may wait in line for a place.
        header_timeout_s: Time for the head of an HTTP request, or the handshake of a WebSocket.
        body_timeout_s: Time for the body of an HTTP request; a slow client gets more the more it has sent.
        max_message_bytes: Longest message that is read, in bytes of UTF-8.
        drain_s: Time that episodes get to end when the server is told to end.
        journal_max_age_s: Time for which the journal keeps what sessions did.
        journal_max_size_mb: How large the journal may become, in MiB.

    Raises:
        ConfigurationError: One of them is too low; the message says which.
    """

    max_sessions: int = 1
    idle_timeout_s: float | None = None
    reset_timeout_s: float | None = None
    step_timeout_s: float | None = None
    resume_window_s: float = 30.0
    max_sessions_per_client: int | None = None
    max_messages_per_s: float | None = None
    max_wait_s: float = 600.0
    header_timeout_s: float | None = 20.0
    body_timeout_s: float | None = 30.0
    max_message_bytes: int = 16 * MEBIBYTE
    drain_s: float = 5.0
    journal_max_age_s: float = 7 * 24 * 3600.0
    journal_max_size_mb: float = 1024.0

    def __post_init__(self) -> None:
        for name in _ABOVE_0_OR_NONE:
            value = getattr(self, name)
            if value is not None and not value > 0:  # NaN included
                raise ConfigurationError(f"Expected {name} to be above 0, or None for no limit; got {value}.")
        for name in ("journal_max_age_s", "journal_max_size_mb"):
            value = getattr(self, name)
            if not 0 < value < math.inf:  # NaN included
                raise ConfigurationError(f"Expected {name} to be above 0, got {value}.")
        for name in ("resume_window_s", "max_wait_s", "drain_s"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:  # NaN included
                raise ConfigurationError(f"Expected {name} to be 0 or above, got {value}.")
        count = self.max_sessions_per_client
        if count is not None and not count >= 1:
            raise ConfigurationError(f"Expected max_sessions_per_client to be 1 or above, or None, got {count}.")
