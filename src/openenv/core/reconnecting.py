"""Connecting again after a connection was lost: how often, for how long, and what is said where it does not work."""

import asyncio
from random import SystemRandom

from openenv.core.answers import Answer
from openenv.core.connection import Connection, ConnectionSettings, open_connection
from openenv.core.env_server.protocol import V1
from openenv.core.exceptions import ConnectionFailedError, ConnectionLostError

# Bounds of the longest pause before an attempt, which doubles from one to the next.
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0
# A connection that lasted as long has not been ended by what was sent on it first.
_STEADY_S = 5.0
# The random part of a pause keeps clients apart that have lost their server together.
_random = SystemRandom()


class Outage:
    """From the loss of a connection until its sessions are taken up on another one, or are lost.

    Args:
        reason: Why the connection went, as the beginning of a sentence.
        window_s: Seconds for which the server keeps the sessions.
        now: The event loop's time.

    Attributes:
        reason: Why the connection went.
        resent: Who waits for the answers to what was sent again.
        sessions_lost: Sessions that the server has not given back.
    """

    def __init__(self, reason: str, window_s: float, now: float) -> None:
        self.reason = reason
        self.resent: list[Answer] = []
        self.sessions_lost = 0
        self._end_s: float | None = None
        self._deadline_s = now + window_s
        self._window_s = window_s
        self._pause_s = _FIRST_PAUSE_S
        self._last_failure: str | None = None

    def pause_s(self, now: float) -> float | None:
        """Return how long to wait before the next attempt; ``None`` where the window has passed."""
        longest_s, self._pause_s = self._pause_s, min(2 * self._pause_s, _LONGEST_PAUSE_S)
        remaining_s = self._deadline_s - now
        return min(_random.uniform(0, longest_s), remaining_s) if remaining_s > 0 else None

    async def connect(self, settings: ConnectionSettings, session: str) -> Connection | None:
        """Try once to make another connection, for as long as the window lasts.

        Args:
            settings: Where to connect to, and how.
            session: One of the sessions that are to be taken up on it.

        Returns:
            The connection; ``None`` where it did not work, and may work later.

        Raises:
            ConfigurationError: The address or a header is none (any more).
            ConnectionLostError: There is another server now, which does not speak v1.
            ServerUnauthorizedError: The server asks for another token.
        """
        try:
            async with asyncio.timeout_at(self._deadline_s):
                connection = await open_connection(settings, session)
        except TimeoutError:
            return None
        except ConnectionFailedError as error:
            self._last_failure = str(error)
            return None
        if connection.subprotocol == V1:
            return connection
        connection.retire()
        raise ConnectionLostError(
            f"{self.reason} before the answer came, and the server at {settings.url} does not speak v1 any more, "
            "which it takes to take a session up. The next call opens a new session."
        )

    def end(self, now: float) -> None:
        """Note that the sessions go on."""
        self._end_s = now

    def goes_on(self, now: float) -> bool:
        """Whether it had not really ended: the next connection went soon, and nothing was answered on it.

        Otherwise a request that the server, or something on the way, can't bear would be sent for ever.
        """
        if self._end_s is None:
            return True
        unanswered = bool(self.resent) and not any(answer.done() for answer in self.resent)
        return unanswered and now - self._end_s < _STEADY_S

    def begin_again(self, reason: str) -> None:
        """Go on with it, as another connection was lost."""
        self.reason = reason
        self.resent.clear()
        self._end_s = None

    def error(self) -> ConnectionLostError:
        """Make the error for a request that gets no answer since its connection could not be replaced."""
        failure = "" if self._last_failure is None else f"Last failure: {self._last_failure.rstrip('.')}. "
        return ConnectionLostError(
            f"{self.reason} before the answer came, and its sessions could not be taken up on another one within "
            f"{self._window_s:g} s, for which the server keeps them (its resume_window_s). {failure}"
            "The next call opens a new session."
        )
