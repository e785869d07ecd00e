"""Who gets a place for a session: whoever comes while there is one, after those who wait in line for it."""

import asyncio
from collections import Counter
from collections.abc import Callable

from openenv.core.env_server.fair_queue import FairQueue, Waiting
from openenv.core.env_server.metrics import Metrics
from openenv.core.env_server.places import Places
from openenv.core.exceptions import ClientCapacityError, DrainingError, SessionCapacityError

# A place that another worker gives back, or a session that has come to yield its own, is noticed within this time.
_LOOK_EVERY_S = 0.1
# Requests that may wait at a time, of one connection and of all connections of one client: what is refused beyond that
# costs nothing, and a server has rarely a place for each of so many.
MOST_WAITING_OF_CONNECTION = 1024
MOST_WAITING_OF_CLIENT = 16 * MOST_WAITING_OF_CONNECTION


class Line:
    """The places of a server, for which clients take turns where there are too few.

    No place is free while somebody waits who may have it: a place that is given back goes to the next client in turn,
    and for that client to the next of its connections. A client that holds as many places as one client may is passed
    over, and keeps its turn.

    Args:
        places: The places.
        client_limit: Places that one client may have at a time; ``None`` for any number.
        make_room: Called where a place is missing. Ends a session that yields its place, of the client that it is
            given or, without one, of any; says whether there was one.
        metrics: Where to note how many wait.

    Attributes:
        places: The places.
        draining: Whether the server ends and gives out no more of them.
    """

    def __init__(
        self, places: Places, client_limit: int | None, make_room: Callable[[str | None], bool], metrics: Metrics
    ) -> None:
        self.places = places
        self.draining = False
        self._client_limit = client_limit
        self._make_room = make_room
        self._metrics = metrics
        self._held: Counter[str] = Counter()
        self._queue = FairQueue()
        self._timer: asyncio.TimerHandle | None = None
        self._serving = False

    def take(self, client: str | None, count: int = 1) -> None:
        """Take places now, all of them or none.

        Args:
            client: Who is to hold them, as in ``clients.client_of``; ``None`` is nobody, for whom no limit holds.
            count: How many.

        Raises:
            SessionCapacityError: There are not so many. ``ClientCapacityError`` where the client's own limit is
                reached, ``DrainingError`` where the server ends.
        """
        self._serve()
        refusal = self._take(client, count)
        if refusal is not None:
            raise refusal

    async def wait(self, client: str | None, wait_s: float, connection: object = None) -> None:
        """Take a place, waiting in line for it. Whoever is cancelled leaves the line.

        Args:
            client: As for ``take``.
            wait_s: How long to wait; 0 not to.
            connection: The client's connection, with which its others take turns.

        Raises:
            SessionCapacityError: There was none in time, or too many requests of the client wait already; as for
                ``take``.
        """
        self._serve()
        refusal = self._take(client, 1)
        if refusal is None:
            return
        if wait_s <= 0 or self.draining:
            raise refusal
        self._check_length(client, connection)
        request = Waiting(asyncio.get_running_loop().create_future(), client, connection)
        self._queue.add(request)
        self._metrics.waiting = len(self._queue)
        self._look_later()
        try:
            await asyncio.wait((request.place,), timeout=wait_s)
        except asyncio.CancelledError:
            self._leave(request)
            raise
        if request.place.done():
            request.place.result()
            return
        self._leave(request)
        self.take(client)

    def give_back(self, client: str | None, count: int = 1) -> None:
        """Give places back, for the first in line."""
        if client is not None:
            self._held[client] -= count
            if not self._held[client]:
                del self._held[client]
            self._queue.unblock(client)
        self.places.give_back(count)
        self._serve()

    def drain(self) -> None:
        """Give out no more places, and tell those who wait."""
        self.draining = self._metrics.draining = True
        for request in self._queue:
            request.place.set_exception(self._draining_error())
        self._queue.clear()
        self._metrics.waiting = 0

    def _take(self, client: str | None, count: int) -> SessionCapacityError | None:
        """Take places, or say why there are none."""
        if self.draining:
            return self._draining_error()
        while self._exceeds(client, count):
            if not self._make_room(client):
                assert client is not None
                return ClientCapacityError(self._held[client], self._client_limit or 0)
        while not self.places.take(count):
            if not self._make_room(None):
                return self._capacity_error(count)
        if client is not None:
            self._held[client] += count
        return None

    def _exceeds(self, client: str | None, count: int) -> bool:
        limit = self._client_limit
        return limit is not None and client is not None and self._held[client] + count > limit

    def _capacity_error(self, count: int) -> SessionCapacityError:
        limit = self.places.limit
        if count == 1:  # not the count of now: another worker may have given a place back since
            return SessionCapacityError(limit, limit)
        taken = self.places.taken
        told = f"Server at capacity: {taken}/{limit} sessions active, which leaves no room for {count} more."
        return SessionCapacityError(taken, limit, told)

    def _check_length(self, client: str | None, connection: object) -> None:
        """Refuse a request that is one too many to wait."""
        of_client, of_connection = self._queue.count_of(client, connection)
        if of_connection >= MOST_WAITING_OF_CONNECTION:
            whose, count = "connection", of_connection
        elif of_client >= MOST_WAITING_OF_CLIENT:
            whose, count = "client", of_client
        else:
            return
        limit = self.places.limit
        raise SessionCapacityError(
            limit,
            limit,
            f"Server at capacity: {limit}/{limit} sessions active, and {count} requests of this {whose} wait for one "
            "already, which is as many as may.",
        )

    def _draining_error(self) -> DrainingError:
        return DrainingError(self.places.taken, self.places.limit)

    def _serve(self) -> None:
        """Give what places there are to those who wait, in their turn."""
        if self._serving or not self._queue:  # to make room gives a place back, which comes here
            return
        self._serving = True
        try:
            while (request := self._queue.first()) is not None:
                refusal = self._take(request.client, 1)
                if refusal is None:
                    self._queue.end_turn(request)
                    request.place.set_result(None)
                elif isinstance(refusal, ClientCapacityError):
                    self._queue.block(request.client)
                else:
                    return
        finally:
            self._serving = False
            self._metrics.waiting = len(self._queue)

    def _leave(self, request: Waiting) -> None:
        if not request.place.done():
            self._queue.remove(request)
            self._metrics.waiting = len(self._queue)
        elif request.place.exception() is None:  # it had just come
            self.give_back(request.client)

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        self._timer = None
        self._queue.unblock_all()  # a session of the client's own may have come to yield its place
        self._serve()
        if self._queue:
            self._look_later()
