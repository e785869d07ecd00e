"""Sessions of all servers of a fleet as they are played: one table, and each session followed and forked at its server.

A session's public name begins with the number of the server that opened it. It may have moved since, so that a query to
all servers finds it.
"""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from openenv.core.env_server.access.guard import answer_handshake
from openenv.core.env_server.live.routes import PATH
from openenv.core.env_server.live.table import LiveTable, TablePage, TableQuery
from openenv.core.env_server.workers.forwarding import named_session
from openenv.core.wire.names import public_name
from openenv.fleet.gateway.forwarding import PATIENCE_S, Forwarding, no_server
from openenv.fleet.gateway.sockets import SocketForwarding
from openenv.fleet.replica import Replica
from openenv.fleet.replicas import Replicas, holder_of
from openenv.fleet.status import FleetStatus, ReplicaStatus


class FleetTablePage(TablePage):
    """Page of the table of a fleet, whose workers are its servers."""

    replicas: list[ReplicaStatus]


class FleetLive:
    """Routes below ``/web/live/`` of a fleet; see ``LiveRoutes`` for those of a server."""

    def __init__(
        self,
        replicas: Replicas,
        forwarding: Forwarding,
        sockets: SocketForwarding,
        describe: Callable[[], FleetStatus],
    ) -> None:
        self._replicas = replicas
        self._forwarding = forwarding
        self._sockets = sockets
        self._describe = describe
        self._table = LiveTable(replicas.query)

    def routes(self) -> list[BaseRoute]:
        """Build the routes."""
        router = APIRouter(include_in_schema=False)
        router.add_api_route(f"{PATH}/sessions", self.table, response_model=FleetTablePage)
        fork = Route(f"{PATH}/fork", _Endpoint(self._fork), methods=["POST"])
        return [*router.routes, fork, WebSocketRoute(f"{PATH}/feed", _Endpoint(self._feed))]

    async def table(self, query: Annotated[TableQuery, Query()]) -> FleetTablePage:
        """List the sessions of all servers, by pages."""
        status = self._describe()
        page = await self._table.page(query, status.capacity)
        return FleetTablePage(**dict(page), replicas=status.replicas)

    async def _fork(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the server of a session fork it."""
        replica = await self._server_of(scope)
        if replica is None:
            await no_server()(scope, receive, send)
        else:
            await self._forwarding.forward(replica, Request(scope, receive), send)

    async def _feed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the server of a session send its entries."""
        replica = await self._server_of(scope)
        if replica is None:
            await answer_handshake(no_server(), scope, receive, send)
        else:
            await self._sockets.forward(replica, scope, receive, send)

    async def _server_of(self, scope: Scope) -> Replica | None:
        """Return the server of the session that a call names, or one that answers that there is none."""
        name = named_session(scope) or ""
        number = await self._table.worker_of(public_name(name))
        holder = holder_of(name) if number is None else int(number)
        placed = await self._replicas.choose(0, holder, PATIENCE_S)
        return None if placed is None else placed.replica


class _Endpoint:
    """ASGI application of one route."""

    def __init__(self, answer: ASGIApp) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call."""
        await self._answer(scope, receive, send)
