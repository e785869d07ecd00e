"""Capacity of a server: a free slot goes to the next request in the queue, or to a new request if none waits."""

import asyncio
from collections import Counter
from collections.abc import Callable

from openenv.core.env_server.capacity.fair_queue import FairQueue, QueuedRequest
from openenv.core.env_server.capacity.slots import Slots
from openenv.core.env_server.metrics import Metrics
from openenv.core.exceptions import ClientCapacityError, DrainingError, SessionCapacityError

# Poll interval for slots that other workers release, and for sessions that have become evictable.
_POLL_INTERVAL_S = 0.1
# Maximum queue lengths, for one connection and for all connections of one client: a refusal costs nothing, and a server
# rarely has a slot for each of so many requests.
MOST_WAITING_OF_CONNECTION = 1024
MOST_WAITING_OF_CLIENT = 16 * MOST_WAITING_OF_CONNECTION


class Capacity:
    """Slots of a server, and the queue for them, in which clients take turns.

    No slot is free while a queued request may have it: a released slot goes to the next client in turn, and within that
    client to the next of its connections. A client at its limit is skipped, and keeps its turn.

    Args:
        slots: The slots.
        client_limit: Maximum number of slots of one client, or what returns that of a client; ``None`` for any number.
        evict: Called when a slot is missing, with a client or ``None`` for any client. Closes an evictable session
            of that client, and returns whether there was one.
        metrics: Where the length of the queue is recorded.

    Attributes:
        slots: The slots.
        draining: Whether the server is shutting down and refuses new sessions.
    """

    def __init__(
        self,
        slots: Slots,
        client_limit: int | Callable[[str], int | None] | None,
        evict: Callable[[str | None], bool],
        metrics: Metrics,
    ) -> None:
        self.slots = slots
        self.draining = False
        self._client_limit = client_limit
        self._evict = evict
        self._metrics = metrics
        self._held: Counter[str] = Counter()
        self._queue = FairQueue()
        self._timer: asyncio.TimerHandle | None = None
        self._serving = False

    def share(self, slots: Slots) -> None:
        """Use the slots of a server with several workers instead, before the first slot is acquired."""
        self.slots = slots

    def acquire(self, client: str | None, count: int = 1) -> None:
        """Acquire slots without waiting, all of them or none.

        Args:
            client: Address of the client, as in ``access.peer.peer_address``; ``None`` for a client without a limit.
            count: Number of slots.

        Raises:
            SessionCapacityError: Too few slots are free. ``ClientCapacityError`` if the client's own limit is reached,
                ``DrainingError`` if the server is shutting down.
        """
        self._serve()
        refusal = self._acquire(client, count)
        if refusal is not None:
            raise refusal

    async def wait(self, client: str | None, wait_s: float, connection: object = None) -> None:
        """Acquire a slot, waiting in the queue for it. Cancellation removes the request from the queue.

        Args:
            client: As for ``acquire``.
            wait_s: Maximum wait in seconds; 0 for none.
            connection: The client's connection; connections of one client take turns.

        Raises:
            SessionCapacityError: No slot was free in time, or the client has too many queued requests; otherwise as
                for ``acquire``.
        """
        self._serve()
        refusal = self._acquire(client, 1)
        if refusal is None:
            return
        if wait_s <= 0 or self.draining:
            raise refusal
        self._check_length(client, connection)
        request = QueuedRequest(asyncio.get_running_loop().create_future(), client, connection)
        self._queue.add(request)
        self._metrics.waiting = len(self._queue)
        self._poll_later()
        try:
            await asyncio.wait((request.slot,), timeout=wait_s)
        except asyncio.CancelledError:
            self._remove(request)
            raise
        if request.slot.done():
            request.slot.result()
            return
        self._remove(request)
        self.acquire(client)

    def release(self, client: str | None, count: int = 1) -> None:
        """Release slots, and assign them to the queue."""
        if client is not None:
            self._held[client] -= count
            if not self._held[client]:
                del self._held[client]
            self._queue.unblock(client)
        self.slots.release(count)
        self._serve()

    def drain(self) -> None:
        """Refuse new sessions from now on, and fail all queued requests."""
        self.draining = self._metrics.draining = True
        for request in self._queue:
            request.slot.set_exception(self._draining_error())
        self._queue.clear()
        self._metrics.waiting = 0

    def _acquire(self, client: str | None, count: int) -> SessionCapacityError | None:
        """Acquire slots; return the error if that fails."""
        if self.draining:
            return self._draining_error()
        while self._exceeds(client, count):
            if not self._evict(client):
                assert client is not None
                return ClientCapacityError(self._held[client], self._limit_of(client) or 0)
        while not self.slots.acquire(count):
            if not self._evict(None):
                return self._capacity_error(count)
        if client is not None:
            self._held[client] += count
        return None

    def _exceeds(self, client: str | None, count: int) -> bool:
        limit = None if client is None else self._limit_of(client)
        return limit is not None and client is not None and self._held[client] + count > limit

    def _limit_of(self, client: str) -> int | None:
        return self._client_limit(client) if callable(self._client_limit) else self._client_limit

    def _capacity_error(self, count: int) -> SessionCapacityError:
        limit = self.slots.limit
        if count == 1:  # not the current count: another worker may have released a slot since
            return SessionCapacityError(limit, limit)
        in_use = self.slots.in_use
        message = (
            f"Server at capacity: {in_use}/{limit} sessions active, and {count} more were requested. Request fewer, "
            "or try again later."
        )
        return SessionCapacityError(in_use, limit, message)

    def _check_length(self, client: str | None, connection: object) -> None:
        """Raise ``SessionCapacityError`` if the queue is full for this connection or client."""
        of_client, of_connection = self._queue.count_of(client, connection)
        if of_connection >= MOST_WAITING_OF_CONNECTION:
            whose, count = "connection", of_connection
        elif of_client >= MOST_WAITING_OF_CLIENT:
            whose, count = "client", of_client
        else:
            return
        limit = self.slots.limit
        raise SessionCapacityError(
            limit,
            limit,
            f"Server at capacity: {limit}/{limit} sessions active, and {count} requests of this {whose} are queued "
            "already, the most that may be. Try again when some of them have been answered.",
        )

    def _draining_error(self) -> DrainingError:
        return DrainingError(self.slots.in_use, self.slots.limit)

    def _serve(self) -> None:
        """Assign the free slots to the queued requests, in their order."""
        if self._serving or not self._queue:  # an eviction releases a slot, which calls this method again
            return
        self._serving = True
        try:
            while (request := self._queue.first()) is not None:
                refusal = self._acquire(request.client, 1)
                if refusal is None:
                    self._queue.end_turn(request)
                    request.slot.set_result(None)
                elif isinstance(refusal, ClientCapacityError):
                    self._queue.block(request.client)
                else:
                    return
        finally:
            self._serving = False
            self._metrics.waiting = len(self._queue)

    def _remove(self, request: QueuedRequest) -> None:
        if not request.slot.done():
            self._queue.remove(request)
            self._metrics.waiting = len(self._queue)
        elif request.slot.exception() is None:  # a slot was assigned just before the cancellation
            self.release(request.client)

    def _poll_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_POLL_INTERVAL_S, self._poll)

    def _poll(self) -> None:
        self._timer = None
        self._queue.unblock_all()  # a session of a blocked client may have become evictable
        self._serve()
        if self._queue:
            self._poll_later()
