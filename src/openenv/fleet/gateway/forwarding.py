"""HTTP requests that a fleet forwards to one of its servers, whose answer it forwards as it comes.

Sessions over HTTP and agents' streams go this way, and requests about the environment. So do the sockets of pages in a
browser (``sockets.py``); the clients of all other sockets are redirected to the server itself.
"""

import logging
import ssl
from collections.abc import AsyncIterator

import httpx
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from openenv.core.addresses import reachable, url_of
from openenv.core.env_server.access.peer import TOKEN_NAME
from openenv.core.env_server.tls import TLS
from openenv.core.exceptions import SessionCapacityError
from openenv.core.wire.names import API_KEY_HEADER
from openenv.fleet.gateway.connections import SpreadTransport
from openenv.fleet.replica import Replica

logger = logging.getLogger(__name__)

_OF_ONE_CONNECTION = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
# The guard of the fleet has checked these. The fleet requests from the server with its token, except for a client with
# a named one: that the server has, too, with its limits, and names it in the list of its sessions.
_FOR_THE_GUARD = frozenset({"host", "origin"})
_CREDENTIALS = frozenset({"authorization", API_KEY_HEADER.lower()})
PATIENCE_S = 8.0
"""Seconds to wait for a server: somewhat less than the 10 for which a client waits for a connection by default."""

# Less than the servers keep an idle connection, which they then close without notice.
_KEEP_ALIVE_S = 2.0


class Forwarding:
    """Forwards requests."""

    def __init__(self, token: str | None, tls: TLS | None) -> None:
        self._is_https = tls is not None
        self._credentials = [] if token is None else [("authorization", f"Bearer {token}")]
        # No limits: a step takes as long as it takes, and streams of agents stay open.
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=10.0),
            transport=SpreadTransport(trust_in(tls), _KEEP_ALIVE_S),
            trust_env=False,
        )

    async def forward(self, replica: Replica, request: Request, send: Send) -> None:
        """Have a server answer a request, or answer with the reason why it does not."""
        try:
            response = await self._request(replica, request)
            await response(request.scope, request.receive, send)
        except ClientDisconnect:
            logger.debug("a client has gone")
        except httpx.TransportError as error:  # amid the answer: its client sees that it is not whole
            logger.warning("%s has gone amid an answer: %r", replica, error)

    async def _request(self, replica: Replica, request: Request) -> Response:
        """Return the beginning of a server's answer, or the reason why there will be none."""
        try:
            forwarded = self._http.build_request(
                request.method,
                self._url(replica, request.scope),
                headers=headers_for_server(request.scope, self._credentials),
                content=request.stream() if _has_body(request) else None,
            )
            return _Answer(await self._http.send(forwarded, stream=True))
        except (httpx.InvalidURL, UnicodeDecodeError) as error:  # no path: it might lead away from the server
            return JSONResponse({"detail": f"The request's target can't be forwarded: {error}"}, 400)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            logger.info("%s could not be reached: %r", replica, error)
            return no_server()
        except httpx.TransportError as error:
            logger.warning("%s has gone before it answered: %r", replica, error)
            detail = "The server has gone before it answered. It may have carried out the request."
            return JSONResponse({"detail": detail}, 502)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    def _url(self, replica: Replica, scope: Scope) -> httpx.URL:
        query = scope["query_string"]
        target = scope["raw_path"] + (b"?" if query else b"") + query
        return httpx.URL(address_of(replica, https=self._is_https), raw_path=target)


def address_of(replica: Replica, *, https: bool) -> str:
    """Return the address of a server, as the fleet reaches it."""
    assert replica.started is not None
    host = replica.started.node if replica.plan.host is None else reachable(replica.plan.host)
    return url_of(host, replica.started.port, https=https)


def headers_for_server(scope: Scope, credentials: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers of a client's request that its server gets."""
    shows_name = TOKEN_NAME in scope
    left_out = _OF_ONE_CONNECTION | _FOR_THE_GUARD | (frozenset() if shows_name else _CREDENTIALS)
    kept = [
        (name, value)
        for name, value in Headers(scope=scope).items()
        if name not in left_out and not name.startswith(("sec-fetch-", "x-forwarded-"))
    ]
    return kept if shows_name else kept + credentials


def no_server() -> Response:
    """Answer that no server is free for now."""
    detail = "No server of this fleet takes clients at the moment; try again in some seconds."
    return JSONResponse({"detail": detail, "code": SessionCapacityError.code}, 503, {"Retry-After": "1"})


def _has_body(request: Request) -> bool:
    return "content-length" in request.headers or "transfer-encoding" in request.headers


class _Answer(StreamingResponse):
    """Answer of a server, which is forwarded as it comes."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__(_body(answer), answer.status_code)
        self.raw_headers = [
            (name, value) for name, value in answer.headers.raw if name.decode().lower() not in _OF_ONE_CONNECTION
        ]
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._answer.aclose()


async def _body(answer: httpx.Response) -> AsyncIterator[bytes]:
    async for part in answer.aiter_raw():
        yield part


def trust_in(tls: TLS | None) -> ssl.SSLContext | bool:
    """Trust the servers' certificate, by whatever name they are reached; ``False`` where they have none."""
    if tls is None:
        return False
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(tls.certfile)
    return context
