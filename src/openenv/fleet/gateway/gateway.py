"""Address of a fleet, which chooses a server for each client.

A WebSocket's handshake is answered with a redirect to the server that is least loaded; all else goes directly between
the client and that server. HTTP requests are forwarded, and so are the WebSockets of pages, which follow no redirect.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from fastapi import FastAPI
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import WebSocketRoute
from starlette.types import Receive, Scope, Send

from openenv.core.addresses import is_any, url_of
from openenv.core.env_server.access.guard import answer_handshake, protect
from openenv.core.env_server.access.policy import AccessPolicy
from openenv.core.env_server.operations.exposition import to_report
from openenv.core.env_server.operations.routes import OperatorRoutes, Report
from openenv.core.env_server.pages import docs
from openenv.core.env_server.types import ServerMode
from openenv.core.env_server.web import page
from openenv.core.env_server.workers.forwarding import named_session
from openenv.core.wire.names import SESSIONS_HEADER
from openenv.fleet.gateway.forwarding import PATIENCE_S, Forwarding, no_server
from openenv.fleet.gateway.live import FleetLive
from openenv.fleet.gateway.sockets import SocketForwarding, is_of_page
from openenv.fleet.replica import Replica
from openenv.fleet.replicas import Placed, Replicas, holder_of
from openenv.fleet.status import FleetStatus, Phase

_COUNT = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_HOST_NAME = re.compile(r"[A-Za-z0-9._:-]{1,253}")
# Longest body that is looked into for the session that an agent names there.
_LONGEST_NAMING_BODY = 1024 * 1024
# Methods of requests that open no session.
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_CAPACITY = "openenv_sessions_capacity"


class Gateway:
    """Answers at a fleet's address."""

    def __init__(
        self,
        replicas: Replicas,
        forwarding: Forwarding,
        sockets: SocketForwarding,
        describe: Callable[[], FleetStatus],
    ) -> None:
        self._replicas = replicas
        self._forwarding = forwarding
        self._describe = describe
        self._placements = _Placements(replicas, sockets)
        self._live = FleetLive(replicas, forwarding, sockets, describe)

    def app(self, access: AccessPolicy, mode: ServerMode) -> FastAPI:
        """Build the application."""
        app = FastAPI(title="OpenEnv fleet", openapi_url=None)
        app.router.routes += OperatorRoutes(self._reports).router(mode).routes
        app.add_api_route("/health", self.health)
        app.add_api_route("/ready", self.ready)
        app.add_api_route("/fleet", self.fleet)
        for path in ("/ws", "/mcp"):
            app.router.routes.append(WebSocketRoute(path, self._placements))
        app.router.routes += [*page.view_routes(), *docs.docs_routes()]
        if mode is ServerMode.SIMULATION:  # an agent must not read the episodes of others
            app.router.routes += self._live.routes()
        app.router.default = self._forward
        protect(app, replace(access, open_pages=page.PUBLIC_PATHS | docs.PUBLIC_PATHS))
        return app

    async def health(self) -> dict[str, str]:
        """Answer that the fleet's address is served."""
        return {"status": "healthy"}

    async def ready(self) -> Response:
        """Return whether some server takes sessions."""
        is_ready = bool(self._replicas.in_phase(Phase.SERVING))
        return JSONResponse({"status": "ready" if is_ready else "draining"}, 200 if is_ready else 503)

    async def fleet(self) -> FleetStatus:
        """Describe the fleet and its servers."""
        return self._describe()

    async def _reports(self, question: Report) -> Mapping[str, Report | None]:
        reports = await self._replicas.query(question)
        if question["about"] != "metrics":
            return reports
        for report in reports.values():
            if report is not None:  # what each server has room for is not what the fleet has
                report["metrics"] = [family for family in report["metrics"] if family[0] != _CAPACITY]
        return {**reports, "fleet": {"metrics": to_report(self._figures())}}

    def _figures(self) -> list[Metric]:
        status = self._describe()
        phases = Counter(replica.phase for replica in status.replicas)
        replicas = GaugeMetricFamily("openenv_fleet_replicas", "Servers of the fleet.", labels=["phase"])
        for phase in Phase:
            replicas.add_metric([phase], phases[phase])
        placements, replaced = self._placements.count, self._replicas.replaced
        return [
            GaugeMetricFamily(_CAPACITY, "Sessions that may be open at once.", status.capacity),
            replicas,
            CounterMetricFamily("openenv_fleet_placements", "Handshakes answered with a server's address.", placements),
            CounterMetricFamily("openenv_fleet_replaced", "Servers replaced since they died or hung.", replaced),
        ]

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that has no route here."""
        if scope["type"] == "websocket":
            await answer_handshake(Response(status_code=404), scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            holder = await _holder_in_body(request) or holder_of(named_session(scope))
        except ClientDisconnect:
            return
        placed = await self._replicas.choose(0 if request.method in _READS else 1, holder, PATIENCE_S)
        if placed is None:
            await no_server()(scope, receive, send)
        else:
            await self._forwarding.forward(placed.replica, request, send)


class _Placements:
    """Answers handshakes of WebSockets with the address of a server, or forwards the sockets of pages.

    Attributes:
        count: Handshakes that were answered with an address.
    """

    def __init__(self, replicas: Replicas, sockets: SocketForwarding) -> None:
        self.count = 0
        self._replicas = replicas
        self._sockets = sockets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        placed = await self._replicas.choose(_wanted(scope), holder_of(named_session(scope)), PATIENCE_S)
        if placed is None:
            await answer_handshake(no_server(), scope, receive, send)
            return
        if is_of_page(scope):
            await self._sockets.forward(placed.replica, scope, receive, send)
        else:
            self.count += 1
            await answer_handshake(_redirect(placed, scope), scope, receive, send)


def _redirect(placed: Placed, scope: Scope) -> Response:
    headers = {SESSIONS_HEADER: str(placed.sessions), "Cache-Control": "no-store"}
    query = scope["query_string"].decode("latin-1")
    url = f"{_socket_url(placed.replica, scope)}{scope['path']}{'?' if query else ''}{query}"
    return RedirectResponse(url, 307, headers)


def _socket_url(replica: Replica, scope: Scope) -> str:
    """Return the address of a server, as the client can reach it."""
    assert replica.started is not None
    host = replica.started.host
    if is_any(host):  # the client knows an address that leads here
        named = HTTPConnection(scope).url.hostname or ""
        host = named if _HOST_NAME.fullmatch(named) else replica.started.node
    return url_of(host, replica.started.port).replace("http", scope["scheme"], 1)


def _wanted(scope: Scope) -> int:
    """Return the number of sessions for which a client connects."""
    sent = HTTPConnection(scope).headers.get(SESSIONS_HEADER, "")
    return int(sent) if _COUNT.fullmatch(sent) else 1


async def _holder_in_body(request: Request) -> int | None:
    """Return the replica of an agent's request, which may name its session in its body."""
    length = request.headers.get("content-length", "")
    if request.method != "POST" or request.url.path != "/mcp" or not _COUNT.fullmatch(length):
        return None
    if int(length) > _LONGEST_NAMING_BODY:
        return None
    try:
        document = from_json(await request.body())
    except ValueError:
        return None
    parameters = document.get("params") if isinstance(document, dict) else None
    return holder_of(parameters.get("session_id")) if isinstance(parameters, dict) else None
