"""How many environments exist that answer a single request each, beside those of the sessions."""

import asyncio
from collections import deque

from openenv.core.exceptions import SessionCapacityError

# Where fewer sessions are granted, these many requests are answered at a time all the same.
_AT_LEAST = 4
# A request that waits is a coroutine and a connection; beyond so many, and after so long, its client had better wait.
_MOST_WAITING = 1024
_LONGEST_WAIT_S = 10.0
_RETRY_AFTER_S = 1.0


class SingleRequestSlots:
    """Slots for environments that answer a single request; requests wait for one in the order in which they came.

    Args:
        limit: How many there are, at least.
        max_wait_s: How long a request waits, at most, though never longer than some seconds.
        max_waiting: How many requests wait.

    Attributes:
        limit: How many there are.
        taken: How many are taken now.
    """

    def __init__(self, limit: int, max_wait_s: float = _LONGEST_WAIT_S, max_waiting: int = _MOST_WAITING) -> None:
        self.limit = max(limit, _AT_LEAST)
        self.taken = 0
        self._max_wait_s = min(max_wait_s, _LONGEST_WAIT_S)
        self._max_waiting = max_waiting
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Take a slot, or wait for one.

        Raises:
            SessionCapacityError: None was given back in time, or too many requests wait already.
        """
        if self.taken < self.limit:
            self.taken += 1
            return
        if len(self._waiting) >= self._max_waiting:
            raise self._refusal()
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(slot)
        try:
            await asyncio.wait((slot,), timeout=self._max_wait_s)
        except asyncio.CancelledError:
            if slot.done():
                self.give_back()
            slot.cancel()
            raise
        if not slot.done():
            slot.cancel()
            raise self._refusal()

    def give_back(self) -> None:
        """Give a slot to the request that has waited longest."""
        while self._waiting:
            slot = self._waiting.popleft()
            if not slot.done():
                slot.set_result(None)
                return
        self.taken -= 1

    def _refusal(self) -> SessionCapacityError:
        return SessionCapacityError(
            self.taken,
            self.limit,
            f"This server makes up to {self.limit} environments at a time for requests that name no session, and all "
            "of them are at work. Open a session and name it, or ask again.",
            retry_after_s=_RETRY_AFTER_S,
        )
