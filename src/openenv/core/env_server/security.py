"""Who may use a server: pages of other sites are kept out, and peers from elsewhere need a token.

``Guard`` stands before everything else that an application answers, HTTP and WebSocket alike. What it asks depends on
where a request comes from:

- This machine: the ``Host`` and ``Origin`` headers have to be this server's own. A browser sends them truthfully, so no
  page of another site can drive the server, not even one whose name has been pointed at this machine.
- Anywhere else: ``Authorization: Bearer <token>``, or ``X-API-Key: <token>``.

``GET /health`` and ``GET /ready`` are answered in any case, and so are the pages that show the API: they hold nothing
of the environment, and ask for the token themselves.
"""

import asyncio
import logging
import os
import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, NamedTuple, Self

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from openenv.core.addresses import address_of, is_loopback
from openenv.core.env_server.logs import HiddenCredentials
from openenv.core.env_server.pages.start import locked_page, wants_page
from openenv.core.env_server.protocol import error_json
from openenv.core.env_server.session_ids import AGENT_HEADER, SESSION_HEADER
from openenv.core.env_server.settings import ServerSettings
from openenv.core.exceptions import ConfigurationError, UnauthorizedError

logger = logging.getLogger(__name__)

TOKEN_VARIABLE = "OPENENV_TOKEN"  # noqa: S105  # its name, not a token
AUTH_VARIABLE = "OPENENV_AUTH"
API_KEY_HEADER = "X-API-Key"
_HOSTS_VARIABLE = "OPENENV_ALLOWED_HOSTS"
_ORIGINS_VARIABLE = "OPENENV_ALLOWED_ORIGINS"

_TOKEN_BYTES = 24
# A proxy that passes a request on adds one of these. They can be made up, so they never make a peer a local one.
_PROXY_HEADERS = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
# Seconds that a refused handshake has to end.
_CLOSE_TIMEOUT_S = 1.0
# What tells whether a server is up says nothing else.
_OPEN_PATHS = ("/health", "/ready")
_LONGEST_ECHO = 100
# Whom Starlette's test client says that it is. A proxy may name its client anything, but then its header is there, too.
_TEST_CLIENT = "testclient"
_HIDDEN_CREDENTIALS = HiddenCredentials()

_NAME = r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)"
_PORT = r"(?::(?P<port>[0-9]{1,5}))?"
_HOST = re.compile(_NAME + _PORT)
_ORIGIN = re.compile(rf"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://{_NAME}{_PORT}")
_ALLOWED_HOST = re.compile(r"(\*\.)?[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_HTTP_SCHEMES = {"ws": "http", "wss": "https"}


class Origin(NamedTuple):
    """Where a page comes from, in one form: lower case, the port spelled out."""

    scheme: str
    name: str
    port: int | None

    def __str__(self) -> str:
        """Write it as browsers do, without a port that goes without saying."""
        port = "" if self.port in (None, _DEFAULT_PORTS.get(self.scheme)) else f":{self.port}"
        return f"{self.scheme}://{self.name}{port}"


class Peer(Enum):
    """Where a request comes from."""

    SELF = "this process, as in-process test clients do"
    LOCAL = "this machine"
    ELSEWHERE = "another machine, or a proxy"


class WayIn(StrEnum):
    """What peers from elsewhere have to show."""

    NOTHING = "nothing"
    TOKEN_OF_VARIABLE = "the token that OPENENV_TOKEN holds"  # noqa: S105  # neither is a token
    TOKEN_OF_APPLICATION = "another token, which the application has set"  # noqa: S105


class Refusal(NamedTuple):
    """Why a request is not answered.

    Attributes:
        status: Its HTTP status.
        detail: What was expected, what came, and which setting allows it.
    """

    status: int
    detail: str


@dataclass(frozen=True)
class Access:
    """Who may use a server.

    Attributes:
        token: What peers from elsewhere must show; ``None`` where the server has none, and so answers none of them.
        asks_token: Whether they have to show one at all.
        hosts: Further names that the server is known by; ``*.example.com`` stands for all below ``example.com``.
        origins: Origins of other sites whose pages may drive the server.
        open_pages: Paths of what holds nothing of the environment, which browsers may load without a token.
    """

    token: str | None = field(default=None, repr=False)
    asks_token: bool = True
    hosts: frozenset[str] = frozenset()
    origins: frozenset[Origin] = frozenset()
    open_pages: frozenset[str] = frozenset()

    @classmethod
    def of(cls, settings: ServerSettings) -> Self:
        """Read who may use a server from its settings and the environment.

        Raises:
            ConfigurationError: A setting makes no sense.
        """
        return cls(
            token=_checked_token(settings.get("token"), "token") or _checked_token(_variable(TOKEN_VARIABLE)),
            asks_token=asks_token(settings),
            hosts=frozenset(map(_checked_host, _list(settings.get("allowed_hosts"), _HOSTS_VARIABLE))),
            origins=frozenset(map(_checked_origin, _list(settings.get("allowed_origins"), _ORIGINS_VARIABLE))),
        )

    @property
    def way_in(self) -> WayIn:
        """What peers from elsewhere have to show."""
        if not self.asks_token:
            return WayIn.NOTHING
        return WayIn.TOKEN_OF_VARIABLE if self.token == _variable(TOKEN_VARIABLE) else WayIn.TOKEN_OF_APPLICATION

    def refusal(self, scope: Scope) -> Refusal | None:
        """Say why a request is to be refused; ``None`` for one that may pass.

        Args:
            scope: ASGI's description of it, of type ``http`` or ``websocket``.
        """
        if _is_read_of(scope, _OPEN_PATHS):
            return None
        headers = Headers(scope=scope)
        match _peer(scope, headers):
            case Peer.SELF:
                return None
            case Peer.LOCAL:
                return (
                    self._wrong_token(headers) or self._wrong_host(scope, headers) or self._other_site(scope, headers)
                )
            case Peer.ELSEWHERE if _is_read_of(scope, self.open_pages):
                return None
            case Peer.ELSEWHERE:
                return self._no_token(headers) if self.asks_token else self._other_site(scope, headers)

    def _no_token(self, headers: Headers) -> Refusal | None:
        if self.token is None:
            return Refusal(
                401,
                "This server answers only requests that come from its own machine and through no proxy, because it has "
                f"no token. Start it with one, as in {TOKEN_VARIABLE}=$(openssl rand -hex 24), and send it as "
                f"`Authorization: Bearer <token>`; or with {AUTH_VARIABLE}=none, to answer anybody.",
            )
        if _bearer(headers) is None:
            return Refusal(
                401,
                "Expected this server's token as `Authorization: Bearer <token>`, got none. Clients take it from the "
                f"variable {TOKEN_VARIABLE} or the argument token=.",
            )
        return self._wrong_token(headers)

    def _wrong_token(self, headers: Headers) -> Refusal | None:
        """Refuse another token than the server's; whether one is needed at all is not asked here."""
        sent = _bearer(headers)
        if not self.asks_token or self.token is None or sent is None:
            return None
        if secrets.compare_digest(sent, self.token.encode()):
            return None
        return Refusal(401, "Expected this server's token in `Authorization: Bearer <token>`, got another one.")

    def _wrong_host(self, scope: Scope, headers: Headers) -> Refusal | None:
        sent = headers.getlist("host")
        if len(sent) != 1:
            return Refusal(403, f"Expected one Host header that names this machine, got {len(sent)}.")
        found = _HOST.fullmatch(sent[0])
        if found is not None and self._is_ours(found["name"].lower(), scope):
            return None
        return Refusal(
            403,
            f"Expected a Host header that names this machine, as in localhost:8000, got {_quoted(sent[0])}. A page "
            "of another site may have sent this. If the server is known by this name, say so with allowed_hosts=[...], "
            f"{_HOSTS_VARIABLE} or `openenv serve --allowed-host`.",
        )

    def _is_ours(self, name: str, scope: Scope) -> bool:
        address = address_of(name.strip("[]"))
        if address is not None and is_loopback(str(address)):
            return True
        server = scope.get("server")
        if address is not None and server is not None and address == address_of(str(server[0])):
            return True
        return is_loopback(name) or self._is_allowed(name.removesuffix(".").strip("[]"))

    def _is_allowed(self, name: str) -> bool:
        return name in self.hosts or any(name.endswith(host[1:]) for host in self.hosts if host.startswith("*."))

    def _other_site(self, scope: Scope, headers: Headers) -> Refusal | None:
        """Refuse what a page of another site has a browser send."""
        sent = headers.getlist("origin")
        if len(sent) > 1 or (sent and not self._may_come_from(_origin(sent[0]), scope, headers)):
            return Refusal(
                403,
                f"Expected a request of this server's own pages, got one of the origin {_quoted(', '.join(sent))}. If "
                f"pages of that origin may drive this server, say so with allowed_origins=[...], {_ORIGINS_VARIABLE} "
                "or `openenv serve --allowed-origin`.",
            )
        if not sent and _is_made_by_another_site(headers):
            return Refusal(
                403,
                "Expected a request of this server's own pages, got one that a page of another site makes and that "
                "names no origin (Sec-Fetch-Site). A page of an allowed origin has to use fetch with mode 'cors'.",
            )
        return None

    def _may_come_from(self, origin: Origin | None, scope: Scope, headers: Headers) -> bool:
        if origin is None:
            return False
        scheme = _HTTP_SCHEMES.get(scope["scheme"], scope["scheme"])
        if not self.asks_token and origin.scheme == "https":  # it may have been a proxy that ended TLS
            scheme = "https"
        return origin in self.origins or origin == _origin(f"{scheme}://{headers.get('host', '')}")


class Guard:
    """ASGI middleware that lets only those use a server who may.

    Args:
        app: The application behind it.
        access: Who may use it.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        refusal = self._access.refusal(scope) if scope["type"] in ("http", "websocket") else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        logger.info("refused a request from %s: %s", scope.get("client"), refusal.detail)
        try:
            if refusal.status == 401 and self._access.open_pages and wants_page(scope):
                await locked_page()(scope, receive, send)
            else:
                await _answer(refusal, scope, receive, send)
        except OSError as error:  # what ASGI servers raise on sending to a client that has gone
            logger.debug("a client went before it was refused: %s", error)


def new_token() -> str:
    """Make a token that nobody can guess."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def needs_new_token(host: str, settings: ServerSettings) -> bool:
    """Whether a server that listens on an address would turn away everybody whom it is meant for.

    Args:
        host: The address.
        settings: The server's.
    """
    return not is_loopback(host) and asks_token(settings) and not (settings.get("token") or _variable(TOKEN_VARIABLE))


def asks_token(settings: ServerSettings) -> bool:
    """Whether peers from elsewhere have to show a token.

    Raises:
        ConfigurationError: The setting is neither ``token`` nor ``none``.
    """
    auth = settings.get("auth") or _variable(AUTH_VARIABLE) or "token"
    if auth not in ("token", "none"):
        raise ConfigurationError(f"Expected auth ({AUTH_VARIABLE}) to be 'token' or 'none', got {auth!r}.")
    return auth == "token"


def way_in_of(app: Any) -> WayIn:
    """Say what an application wants to be shown by peers from elsewhere: nothing, where it is not protected."""
    access = getattr(getattr(app, "state", None), "access", None)
    return access.way_in if isinstance(access, Access) else WayIn.NOTHING


def guarded(app: ASGIApp, access: Access) -> ASGIApp:
    """Put a guard before an application and, before that, what tells browsers whose pages may use it.

    Browsers ask for that without any token, and read a refusal only where they were told.
    """
    guard = Guard(app, access)
    if not access.origins:  # there is nobody whose browser would have to be told
        return guard
    every = ["*"]
    return CORSMiddleware(
        guard,
        allow_origins=[str(origin) for origin in access.origins],
        allow_methods=every,
        allow_headers=every,
        expose_headers=[SESSION_HEADER, AGENT_HEADER],
    )


def protect(app: Starlette, access: Access) -> None:
    """Put a guard before an application, and say in the log if it asks nobody for a token.

    Args:
        app: The application; ``app.state.access`` is set for its workers, which hand calls on before it sees them.
        access: Who may use it.
    """
    app.state.access = access
    app.add_middleware(guarded, access=access)
    logging.getLogger("uvicorn.error").addFilter(_HIDDEN_CREDENTIALS)
    if not access.asks_token:
        logger.warning("%s=none: whoever can reach this server can use it; nobody is asked for a token.", AUTH_VARIABLE)


async def _answer(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    body = error_json({"detail": refusal.detail, "code": UnauthorizedError.code})
    headers = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else None
    response = Response(body, refusal.status, headers, media_type="application/json")
    if scope["type"] == "http":
        await response(scope, receive, send)
    else:
        await answer_handshake(response, scope, receive, send)


async def answer_handshake(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer the handshake of a WebSocket over HTTP, instead of accepting it.

    Args:
        response: The answer.
        scope: ASGI's description of the handshake.
        receive: The socket's own.
        send: The socket's own.
    """
    await receive()  # websocket.connect
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close"})  # the server answers 403
        return
    await response(scope, receive, send)
    # uvicorn logs an error where a call returns before the connection is gone. It says twice that it is: when it has
    # been told to close it, and when it has done so.
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await receive()
            await receive()


def _is_read_of(scope: Scope, paths: Collection[str]) -> bool:
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    return scope["type"] == "http" and path in paths and scope["method"] in ("GET", "HEAD")


def _peer(scope: Scope, headers: Headers) -> Peer:
    """Tell where a request comes from; from elsewhere, wherever there is a doubt."""
    if any(name in headers for name in _PROXY_HEADERS):
        return Peer.ELSEWHERE
    client = scope.get("client")
    if client is None:
        # Over a Unix socket, whose address has no port. A TCP connection that has been reset has no client either,
        # although what came before can still be read.
        server = scope.get("server")
        return Peer.LOCAL if server is not None and server[1] is None else Peer.ELSEWHERE
    if client[0] == _TEST_CLIENT:
        return Peer.SELF
    address = address_of(str(client[0]))
    return Peer.LOCAL if address is not None and address.is_loopback else Peer.ELSEWHERE


def _bearer(headers: Headers) -> bytes | None:
    """The token that was sent; ``None`` where there is none, or more than one header to choose from."""
    sent = headers.getlist("authorization")
    if not sent:  # as the clients of ORS send it, often empty
        keys = headers.getlist(API_KEY_HEADER)
        return keys[0].strip().encode("latin-1") or None if len(keys) == 1 else None
    scheme, _, token = sent[0].partition(" ") if len(sent) == 1 else ("", "", "")
    return token.strip().encode("latin-1") if scheme.lower() == "bearer" else None


def _is_made_by_another_site(headers: Headers) -> bool:
    """Whether a browser says so, and it is no link that a person has followed."""
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return False
    return (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) != ("navigate", "document")


def _origin(text: str) -> Origin | None:
    """Read an origin; ``None`` where it is none, such as ``null``."""
    found = _ORIGIN.fullmatch(text)
    if found is None:
        return None
    scheme = found["scheme"].lower()
    port = int(found["port"]) if found["port"] else _DEFAULT_PORTS.get(scheme)
    return Origin(scheme, found["name"].lower(), port)


def _quoted(value: str) -> str:
    return f"{value!r:.{_LONGEST_ECHO}}"


def _variable(name: str) -> str | None:
    return os.environ.get(name) or None


def _list(given: Sequence[str] | None, variable: str) -> list[str]:
    """Read a list, by default from an environment variable, in which commas part it."""
    values: Iterable[str] = (_variable(variable) or "").split(",") if given is None else given
    return [value.strip() for value in values if value.strip()]


def _checked_token(token: str | None, name: str = TOKEN_VARIABLE) -> str | None:
    if token is None or re.fullmatch(r"[\x21-\x7e]+", token):
        return token
    raise ConfigurationError(
        f"Expected the token ({name}) to be one or more letters, digits and signs of ASCII without spaces, since it "
        "travels in an HTTP header; it is something else."
    )


def _checked_host(host: str) -> str:
    name = host.strip("[]").lower()
    if _ALLOWED_HOST.fullmatch(name):
        return name
    raise ConfigurationError(
        f"Expected an allowed host to be a name without scheme and port, as in env.example.com or *.example.com, got "
        f"{host!r}."
    )


def _checked_origin(text: str) -> Origin:
    origin = _origin(text)
    if origin is None:
        raise ConfigurationError(
            f"Expected an allowed origin to be a scheme, a name and perhaps a port, as in https://example.com, got "
            f"{text!r}."
        )
    return origin
