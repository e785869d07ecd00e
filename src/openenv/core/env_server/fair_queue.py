"""The queue for sessions: clients take turns, and so do the connections of one client.

Adding, removing and finding the next request take the same time however many wait.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class Waiting:
    """A request that waits for a place.

    Attributes:
        place: Done once the request has its place, or will get none.
        client: The client that it comes from; ``None`` where nobody counts it.
        connection: The client's connection that it came over.
    """

    place: asyncio.Future[None]
    client: str | None
    connection: object


class FairQueue:
    """Requests that wait, of several clients.

    The next request is the oldest one of the connection whose turn it is, of the client whose turn it is. A client
    that is blocked is passed over, and is the first again as soon as it is blocked no more.
    """

    def __init__(self) -> None:
        self._ready: OrderedDict[str | None, _Client] = OrderedDict()
        self._blocked: OrderedDict[str | None, _Client] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """Count the requests, of blocked clients too."""
        return self._count

    def __iter__(self) -> Iterator[Waiting]:
        """Iterate over all requests, in no particular order."""
        for clients in (self._ready, self._blocked):
            for client in clients.values():
                for connection in client.connections.values():
                    yield from connection

    def count_of(self, client: str | None, connection: object) -> tuple[int, int]:
        """Count the requests of a client, and those among them that came over one connection."""
        found = self._client(client)
        return (0, 0) if found is None else (found.count, len(found.connections.get(connection, ())))

    def add(self, request: Waiting) -> None:
        """Add a request. A client or connection that had none waiting gets its turn after all others."""
        client = self._client(request.client)
        if client is None:
            client = self._ready[request.client] = _Client()
        client.connections.setdefault(request.connection, OrderedDict())[request] = None
        client.count += 1
        self._count += 1

    def remove(self, request: Waiting) -> None:
        """Remove a request that waits no more."""
        clients = self._ready if request.client in self._ready else self._blocked
        client = clients[request.client]
        requests = client.connections[request.connection]
        del requests[request]
        client.count -= 1
        self._count -= 1
        if not requests:
            del client.connections[request.connection]
        if not client.count:
            del clients[request.client]

    def first(self) -> Waiting | None:
        """Find the next request of a client that is not blocked; ``None`` where there is none."""
        if not self._ready:
            return None
        client = self._ready[next(iter(self._ready))]
        return next(iter(client.connections[next(iter(client.connections))]))

    def end_turn(self, request: Waiting) -> None:
        """Remove a request that has its place. Others of its connection and its client wait for their next turn."""
        self.remove(request)
        client = self._ready.get(request.client)
        if client is None:
            return
        self._ready.move_to_end(request.client)
        if request.connection in client.connections:
            client.connections.move_to_end(request.connection)

    def block(self, client: str | None) -> None:
        """Pass a client over, which has requests waiting and was the first."""
        self._blocked[client] = self._ready.pop(client)

    def unblock(self, client: str | None) -> None:
        """Pass a client over no more, if it was."""
        if client in self._blocked:
            self._ready[client] = self._blocked.pop(client)
            self._ready.move_to_end(client, last=False)

    def unblock_all(self) -> None:
        """Pass no client over any more."""
        for client in reversed(list(self._blocked)):
            self.unblock(client)

    def clear(self) -> None:
        """Remove all."""
        self._ready.clear()
        self._blocked.clear()
        self._count = 0

    def _client(self, client: str | None) -> "_Client | None":
        return self._ready.get(client) or self._blocked.get(client)


class _Client:
    """The requests of one client: of each connection in their order, the connection whose turn it is first."""

    __slots__ = ("connections", "count")

    def __init__(self) -> None:
        self.connections: OrderedDict[object, OrderedDict[Waiting, None]] = OrderedDict()
        self.count = 0
