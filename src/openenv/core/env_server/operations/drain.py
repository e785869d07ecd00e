"""Drain of a server: after SIGTERM it opens no new sessions and waits for running episodes before it ends.

Ctrl-C ends the server at once, as does any second signal. Then uvicorn shuts down: sockets are closed with code 1012,
so that clients of v1 reconnect later.
"""

import logging
import signal
import time
from types import FrameType
from typing import Any

import uvicorn

from openenv.core.env_server.http.uvicorn_connections import timed_requests
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.state import Phase
from openenv.core.env_server.settings import MEBIBYTE, ServerConfig

logger = logging.getLogger(__name__)

# A frame above the limit is still read up to this many times the limit and a MiB, so that its sender gets an error and
# its session goes on. A longer frame closes the socket.
_OVERSIZE_READ = 3


class Drain:
    """Drain of a server: waits for the episodes that run at its creation; no sessions are opened from then on.

    It does not wait for further episodes of these sessions, nor for evictable sessions.

    Args:
        sessions: The server's sessions.
    """

    def __init__(self, sessions: SessionManager) -> None:
        sessions.capacity.drain()
        self._sessions = sessions
        self._ends_at = time.monotonic() + sessions.limits.drain_s
        # The number of each running episode within its session.
        self._episodes = {
            session.id: session.episode.number
            for session in sessions
            if session.episode.phase is Phase.PLAYING and not session.evictable
        }
        self._report(f"draining: {self._count()} under way, at most {sessions.limits.drain_s:g} s")

    def is_over(self) -> bool:
        """Whether all these episodes have ended, or their time is up."""
        if self._under_way == 0:
            logger.info("drained: no episode is under way")
            return True
        if time.monotonic() < self._ends_at:
            return False
        self._report(f"drained for {self._sessions.limits.drain_s:g} s: {self._count()} still under way")
        return True

    @property
    def _under_way(self) -> int:
        return sum(
            session.episode.phase is Phase.PLAYING and self._episodes.get(session.id) == session.episode.number
            for session in self._sessions
        )

    def _count(self) -> str:
        count = self._under_way
        return "1 episode" if count == 1 else f"{count} episodes"

    def _report(self, text: str) -> None:
        # Shown by default only where the server does not end at once.
        logger.log(logging.WARNING if self._under_way else logging.INFO, text)


class DrainingServer(uvicorn.Server):
    """Uvicorn server that applies an application's limits to connections, and drains it on SIGTERM.

    Args:
        config: Uvicorn's configuration.
        sessions: The application's sessions; ``None`` for an application of another kind, which is not drained.
    """

    def __init__(self, config: uvicorn.Config, sessions: SessionManager | None) -> None:
        super().__init__(config)
        keep_to_limits(config, ServerConfig() if sessions is None else sessions.limits)
        self._sessions = sessions
        self._drain_requested = False
        self._drain: Drain | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal: the first SIGTERM drains, any other ends the server now."""
        first = not self._drain_requested and not self.should_exit
        if first and sig == signal.SIGTERM and self._sessions is not None and self._sessions.limits.drain_s > 0:
            self._drain_requested = True
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Start the drain, or check whether it is over; uvicorn calls this ten times a second."""
        if await super().on_tick(counter):
            return True
        if not self._drain_requested or self._sessions is None:
            return False
        if self._drain is None:
            self._drain = Drain(self._sessions)
        if not self._drain.is_over():
            return False
        # Not earlier: streams of agents end as soon as uvicorn's own handler has been called.
        super().handle_exit(signal.SIGTERM, None)
        return True


def sessions_of(app: Any) -> SessionManager | None:
    """Return the sessions of an application; ``None`` for an application that is not of this package."""
    sessions = getattr(getattr(app, "state", None), "openenv_sessions", None)
    return sessions if isinstance(sessions, SessionManager) else None


def keep_to_limits(config: uvicorn.Config, limits: ServerConfig) -> None:
    """Apply an application's limits to uvicorn's connections.

    Args:
        config: Uvicorn's configuration, before uvicorn starts.
        limits: The application's limits.
    """
    config.http = requests = timed_requests(limits)
    config.ws_max_size = longest_frame(limits)
    if config.is_ssl:
        config.load()
        requests.tls, config.ssl = config.ssl, None  # or uvicorn would start TLS before it counts a connection


def longest_frame(limits: ServerConfig) -> int:
    """Return the longest frame that a WebSocket reads, in bytes: above the limit, so that the sender gets an error."""
    return _OVERSIZE_READ * limits.max_message_bytes + MEBIBYTE
