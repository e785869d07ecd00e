"""Slots for environments that serve a single request each, in addition to those of the sessions."""

import asyncio
from collections import deque

from openenv.core.exceptions import SessionCapacityError

# Minimum number of slots, even if the server allows fewer sessions.
_AT_LEAST = 4
# A waiting request costs a coroutine and a connection; beyond this number and time, the wait is left to the client.
_MOST_WAITING = 1024
_LONGEST_WAIT_S = 10.0
_RETRY_AFTER_S = 1.0


class SingleRequestSlots:
    """Slots for environments that serve a single request; requests wait for a slot in order of arrival.

    Args:
        limit: Number of slots; raised to ``_AT_LEAST``.
        max_wait_s: Maximum wait of a request in seconds; capped at ``_LONGEST_WAIT_S``.
        max_waiting: Maximum number of waiting requests.

    Attributes:
        limit: Number of slots.
        in_use: Number of slots in use.
    """

    def __init__(self, limit: int, max_wait_s: float = _LONGEST_WAIT_S, max_waiting: int = _MOST_WAITING) -> None:
        self.limit = max(limit, _AT_LEAST)
        self.in_use = 0
        self._max_wait_s = min(max_wait_s, _LONGEST_WAIT_S)
        self._max_waiting = max_waiting
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Acquire a slot, waiting for it if necessary.

        Raises:
            SessionCapacityError: No slot was released in time, or too many requests are waiting already.
        """
        if self.in_use < self.limit:
            self.in_use += 1
            return
        if len(self._waiting) >= self._max_waiting:
            raise self._refusal()
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(slot)
        try:
            await asyncio.wait((slot,), timeout=self._max_wait_s)
        except asyncio.CancelledError:
            if slot.done():
                self.release()
            slot.cancel()
            raise
        if not slot.done():
            slot.cancel()
            raise self._refusal()

    def release(self) -> None:
        """Release a slot, which goes to the request that has waited longest."""
        while self._waiting:
            slot = self._waiting.popleft()
            if not slot.done():
                slot.set_result(None)
                return
        self.in_use -= 1

    def _refusal(self) -> SessionCapacityError:
        return SessionCapacityError(
            self.in_use,
            self.limit,
            f"This server creates up to {self.limit} environments at a time for requests that name no session, and all "
            "of them are in use. Open a session and name it, or try again later.",
            retry_after_s=_RETRY_AFTER_S,
        )
