"""How a server ends: told by SIGTERM, it takes no new sessions and lets the episodes under way end first.

Ctrl-C does not wait, and neither does a second signal of any kind. What comes afterwards is uvicorn's own end: sockets
are closed with code 1012, so that clients of v1 know that the server may come back.
"""

import logging
import signal
import time
from types import FrameType
from typing import Any

import uvicorn

from openenv.core.env_server.http_connections import timed_requests
from openenv.core.env_server.limits import MEBIBYTE, Limits
from openenv.core.env_server.session import Phase
from openenv.core.env_server.sessions import Sessions

logger = logging.getLogger(__name__)

# A frame that is too long is still read up to this many times the limit and a MiB, so that its sender can be told and
# its session goes on. A longer one closes the socket.
_OVERSIZE_READ = 3


class Drain:
    """Waits for the episodes that are under way when it is made; no sessions are opened from then on.

    A further episode of one of their sessions is not waited for, nor is a session that nobody has claimed.

    Args:
        sessions: The server's.
    """

    def __init__(self, sessions: Sessions) -> None:
        sessions.line.drain()
        self._sessions = sessions
        self._ends_at = time.monotonic() + sessions.limits.drain_s
        # Which episode of its session each one is.
        self._episodes = {
            session.id: session.episodes
            for session in sessions
            if session.phase is Phase.PLAYING and not session.yielding
        }
        self._report(f"draining: {self._count()} under way, at most {sessions.limits.drain_s:g} s")

    def is_over(self) -> bool:
        """Whether they have all ended, or had their time."""
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
            session.phase is Phase.PLAYING and self._episodes.get(session.id) == session.episodes
            for session in self._sessions
        )

    def _count(self) -> str:
        count = self._under_way
        return "1 episode" if count == 1 else f"{count} episodes"

    def _report(self, text: str) -> None:
        # Shown by default only where the server does not end at once.
        logger.log(logging.WARNING if self._under_way else logging.INFO, text)


class DrainingServer(uvicorn.Server):
    """Runs an application, keeps its connections to its limits, and drains it on SIGTERM.

    Args:
        config: What uvicorn is to do.
        sessions: The application's; ``None`` where it has none of ours, and nothing is waited for.
    """

    def __init__(self, config: uvicorn.Config, sessions: Sessions | None) -> None:
        super().__init__(config)
        if sessions is not None:
            keep_to_limits(config, sessions.limits)
        self._sessions = sessions
        self._told_to_drain = False
        self._drain: Drain | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note a signal: the first SIGTERM to drain, any other to end now."""
        first = not self._told_to_drain and not self.should_exit
        if first and sig == signal.SIGTERM and self._sessions is not None and self._sessions.limits.drain_s > 0:
            self._told_to_drain = True
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Begin to drain, or see whether that is over; uvicorn calls this ten times a second."""
        if await super().on_tick(counter):
            return True
        if not self._told_to_drain or self._sessions is None:
            return False
        if self._drain is None:
            self._drain = Drain(self._sessions)
        if not self._drain.is_over():
            return False
        # Not before: streams of agents end as soon as uvicorn's own handler has been called.
        super().handle_exit(signal.SIGTERM, None)
        return True


def sessions_of(app: Any) -> Sessions | None:
    """Find the sessions of an application; ``None`` where ours did not make it."""
    sessions = getattr(getattr(app, "state", None), "sessions", None)
    return sessions if isinstance(sessions, Sessions) else None


def keep_to_limits(config: uvicorn.Config, limits: Limits) -> None:
    """Have uvicorn keep connections to an application's limits.

    Args:
        config: What uvicorn is to do; it has not begun yet.
        limits: The application's.
    """
    config.http = timed_requests(limits)
    config.ws_max_size = longest_frame(limits)


def longest_frame(limits: Limits) -> int:
    """Return the longest message that a WebSocket reads, in bytes, so that one above the limit can be refused."""
    return _OVERSIZE_READ * limits.max_message_bytes + MEBIBYTE
