"""Connecting again after a connection was lost: how often, for how long, and what is said where it does not work."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from random import SystemRandom
from typing import Any

from openenv.core.client.transport.connection import Connection, Endpoint, connect_to_server
from openenv.core.client.transport.waiter import invalid_answer
from openenv.core.exceptions import (
    ConnectionFailedError,
    ConnectionLostError,
    ErrorCode,
    OpenEnvError,
    ServerError,
    ServerSessionError,
)
from openenv.core.wire.messages import MessageType
from openenv.core.wire.names import V1

# Bounds of the longest pause before an attempt, which doubles from one to the next.
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0
# A window has room for so many attempts.
_LEAST_ATTEMPTS = 8
# After a connection that lasted as long, the pauses begin with the shortest again.
_STEADY_S = 5.0
# With these, or with when to ask again, a server says that it may take the session up later; and how long to wait then,
# where it does not say.
_FOR_NOW = (ErrorCode.RATE_LIMITED, ErrorCode.CAPACITY_REACHED)
_SHORTEST_DELAY_S, _USUAL_DELAY_S, _LONGEST_DELAY_S = 0.05, 1.0, 5.0
# The random part of a pause keeps clients apart that have lost their server together.
_random = SystemRandom()


class Reconnect:
    """From the loss of a connection until its sessions are taken up on another one, or are lost.

    Args:
        reason: Why the connection went, as the beginning of a sentence.
        window_s: Seconds for which the server keeps the sessions.
        now: The event loop's time.
        last: The outage before this one, where nothing was answered since.
        loop_ends: Ends the attempt that is under way, when the event loop ends.

    Attributes:
        reason: Why the connection went.
        deadline_s: When to stop trying, by the event loop's time.
        sessions_lost: Sessions that the server has not given back.
    """

    def __init__(
        self,
        reason: str,
        window_s: float,
        now: float,
        last: "Reconnect | None",
        loop_ends: Callable[[], Awaitable[None]],
    ) -> None:
        self.reason = reason
        self.deadline_s = now + window_s
        self.sessions_lost = 0
        self._window_s = window_s
        self._connected_s = now
        follows_soon = last is not None and now - last._connected_s < _STEADY_S
        self._pause_s: float = last._pause_s if last is not None and follows_soon else _FIRST_PAUSE_S
        self._last_failure: str | None = None
        self._attempts = 0
        # Set once it has ended, or the event loop has.
        self._is_over = False
        # A loop that ends cancels its tasks and then has its asynchronous generators end; a timer may still fire then,
        # and a task that it starts is cancelled by nothing.
        self._watch = self._watch_loop(loop_ends)
        _advance(anext(self._watch))

    def end(self) -> None:
        """Watch the event loop no more; there are no further attempts."""
        if not self._is_over:
            self._is_over = True
            _advance(self._watch.aclose())

    async def _watch_loop(self, loop_ends: Callable[[], Awaitable[None]]) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            if not self._is_over:
                self._is_over = True
                await loop_ends()

    def pause_s(self, now: float) -> float | None:
        """Return how long to wait before the next attempt; ``None`` where the window or the loop has ended."""
        if self._is_over:
            return None
        longest_s = min(self._pause_s, self._window_s / _LEAST_ATTEMPTS)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        remaining_s = self.deadline_s - now
        return min(_random.uniform(0, longest_s), remaining_s) if remaining_s > 0 else None

    async def connect(self, ways: Sequence[Endpoint], session_id: str, sessions: int) -> Connection | None:
        """Try once to make another connection, for as long as the window lasts.

        Args:
            ways: Where to connect to, and how; each time the next one is tried.
            session_id: One of the sessions that are to be taken up on it.
            sessions: How many there are.

        Returns:
            The connection; ``None`` where it did not work, and may work later.

        Raises:
            ConfigurationError: The address or a header is none (any more).
            ConnectionLostError: There is another server now, which does not speak v1.
            ServerUnauthorizedError: The server asks for another token.
        """
        endpoint = ways[self._attempts % len(ways)]
        self._attempts += 1
        try:
            async with asyncio.timeout_at(self.deadline_s):
                connection = await connect_to_server(endpoint, session_id, sessions)
        except TimeoutError:
            return None
        except ConnectionFailedError as error:
            self._last_failure = str(error)
            return None
        if connection.subprotocol == V1:
            self._connected_s = asyncio.get_running_loop().time()
            return connection
        connection.close_soon()
        raise ConnectionLostError(
            f"{self.reason}, and the server at {endpoint.shown} does not speak v1 any more, "
            "which it takes to take a session up. The next call opens a new session."
        )

    def begin_again(self, reason: str, now: float) -> None:
        """Go on with it: the next connection went too, before the sessions were taken up on it.

        The time for which there was a connection does not count: a server that rebuilds sessions may need longer.
        """
        self.reason = reason
        self.deadline_s += now - self._connected_s

    def error(self) -> ConnectionLostError:
        """Make the error for a request that gets no answer since its connection could not be replaced."""
        failure = "" if self._last_failure is None else f"Last failure: {self._last_failure.rstrip('.')}. "
        return ConnectionLostError(
            f"{self.reason}, and its sessions could not be taken up on another one within "
            f"{self._window_s:g} s, for which the server keeps them (its resume_window_s). {failure}"
            "The next call opens a new session."
        )


def _advance(step: Awaitable[None]) -> None:
    """Run an asynchronous generator that waits for nothing up to its next ``yield``, or its end."""
    with suppress(StopIteration):
        step.__await__().__next__()


def retry_after_s(refusal: dict[str, Any]) -> float | None:
    """Return when to ask again for a session that the server does not take up for now; ``None`` for never."""
    data = refusal.get("data")
    if refusal.get("type") != MessageType.ERROR or not isinstance(data, dict):
        return None
    delay_s = data.get("retry_after_s")
    if not isinstance(delay_s, int | float):
        return _USUAL_DELAY_S if data.get("code") in _FOR_NOW else None
    return max(_SHORTEST_DELAY_S, min(delay_s, _LONGEST_DELAY_S))


def refused_error(reason: str, refusal: dict[str, Any]) -> OpenEnvError:
    """Make the error for a session that the server does not take up.

    Args:
        reason: Why its connection went, as the beginning of a sentence.
        refusal: The server's answer.
    """
    data = refusal.get("data")
    if not isinstance(data, dict):
        return invalid_answer(MessageType.ATTACHED, refusal)
    error = ServerError.from_frame(data)
    if not isinstance(error, ServerSessionError):
        return error
    return ConnectionLostError(
        f"{reason}, and the server does not keep the session: {error.message} The next call opens a new session."
    )
