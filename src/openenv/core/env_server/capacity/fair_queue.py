"""Queue for sessions, with turns between clients, and between the connections of one client.

Adding, removing and finding the next request take constant time.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class QueuedRequest:
    """Request that waits for a slot.

    Attributes:
        slot: Done when the request has its slot or has failed.
        client: Address of the client; ``None`` for a client without a limit.
        connection: The client's connection that carried the request.
    """

    slot: asyncio.Future[None]
    client: str | None
    connection: object


class FairQueue:
    """Queue of the waiting requests of several clients.

    The next request is the oldest of the connection whose turn it is, of the client whose turn it is. A blocked client
    is skipped, and comes first as soon as it is unblocked.
    """

    def __init__(self) -> None:
        self._ready: OrderedDict[str | None, _Client] = OrderedDict()
        self._blocked: OrderedDict[str | None, _Client] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """Return the number of requests, including those of blocked clients."""
        return self._count

    def __iter__(self) -> Iterator[QueuedRequest]:
        """Iterate over all requests, in no particular order."""
        for clients in (self._ready, self._blocked):
            for client in clients.values():
                for connection in client.connections.values():
                    yield from connection

    def count_of(self, client: str | None, connection: object) -> tuple[int, int]:
        """Return the number of requests of a client, and of one of its connections."""
        found = self._client(client)
        return (0, 0) if found is None else (found.count, len(found.connections.get(connection, ())))

    def add(self, request: QueuedRequest) -> None:
        """Add a request. A client or connection without waiting requests gets its turn after all others."""
        client = self._client(request.client)
        if client is None:
            client = self._ready[request.client] = _Client()
        client.add(request)
        self._count += 1

    def remove(self, request: QueuedRequest) -> None:
        """Remove a request."""
        clients = self._ready if request.client in self._ready else self._blocked
        client = clients[request.client]
        client.remove(request)
        self._count -= 1
        if not client.count:
            del clients[request.client]

    def first(self) -> QueuedRequest | None:
        """Return the next request of a client that is not blocked; ``None`` if there is none."""
        if not self._ready:
            return None
        client = self._ready[next(iter(self._ready))]
        return next(iter(client.connections[next(iter(client.connections))]))

    def end_turn(self, request: QueuedRequest) -> None:
        """Remove a request that has its slot, and give the turn to the next client and connection."""
        self.remove(request)
        client = self._ready.get(request.client)
        if client is None:
            return
        self._ready.move_to_end(request.client)
        if request.connection in client.connections:
            client.connections.move_to_end(request.connection)

    def block(self, client: str | None) -> None:
        """Skip the client from now on; it must be the one whose turn it is."""
        self._blocked[client] = self._ready.pop(client)

    def unblock(self, client: str | None) -> None:
        """Give a blocked client the next turn; do nothing if the client is not blocked."""
        if client in self._blocked:
            self._ready[client] = self._blocked.pop(client)
            self._ready.move_to_end(client, last=False)

    def unblock_all(self) -> None:
        """Unblock all clients, in their order."""
        for client in reversed(list(self._blocked)):
            self.unblock(client)

    def clear(self) -> None:
        """Remove all requests."""
        self._ready.clear()
        self._blocked.clear()
        self._count = 0

    def _client(self, client: str | None) -> "_Client | None":
        return self._ready.get(client) or self._blocked.get(client)


class _Client:
    """Requests of one client, by connection: the connection whose turn it is comes first, then the next in turn."""

    __slots__ = ("connections", "count")

    def __init__(self) -> None:
        self.connections: OrderedDict[object, OrderedDict[QueuedRequest, None]] = OrderedDict()
        self.count = 0

    def add(self, request: QueuedRequest) -> None:
        self.connections.setdefault(request.connection, OrderedDict())[request] = None
        self.count += 1

    def remove(self, request: QueuedRequest) -> None:
        requests = self.connections[request.connection]
        del requests[request]
        self.count -= 1
        if not requests:
            del self.connections[request.connection]
