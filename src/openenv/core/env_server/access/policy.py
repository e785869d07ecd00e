"""Access policy of a server: pages of other sites may not use it, and peers on other machines need a token.

The requirement for a request depends on the peer that sends it:

- A peer on this machine: the ``Host`` and ``Origin`` headers have to be this server's own. A browser sends them
  truthfully, so no page of another site can use the server, not even one whose domain resolves to this machine.
- A peer on another machine: ``Authorization: Bearer <token>``, or ``X-API-Key: <token>``, or for the socket of a page
  the subprotocol that ``names.TOKEN_PROTOCOL`` begins. Where the server requires no
  token (``auth="none"``), a page's ``Origin`` has to be the server's own, with a host name of the server.

With ``auth="always"`` a peer on this machine counts as one on another, as one that a tunnel leads to the server does.

``GET /health`` and ``GET /ready`` are open to every peer, and so are the pages that show the API: they hold nothing of
the environment, and ask for the token themselves.
"""

import base64
import os
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, NamedTuple, Self

from starlette.datastructures import Headers
from starlette.types import Scope

from openenv.core.addresses import HOST_HEADER, Origin, address_of, is_loopback
from openenv.core.env_server.access.token_uses import TokenUses
from openenv.core.env_server.access.tokens import NamedToken, Role, TokenFile, needed_role
from openenv.core.env_server.settings import ServerConfig
from openenv.core.exceptions import ConfigurationError
from openenv.core.wire.names import (
    API_KEY_HEADER,
    AUTH_ALWAYS,
    AUTH_NONE,
    AUTH_VARIABLE,
    TOKEN_PROTOCOL,
    TOKEN_VARIABLE,
)

_TOKEN_BYTES = 24
# A proxy adds one of these headers. They can be forged, so none of them makes a peer a local one.
_PROXY_HEADERS = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
# These paths show whether a server is up, and nothing else.
_OPEN_PATHS = ("/health", "/ready")
_LONGEST_ECHO = 100
# Address of Starlette's test client. A proxy can give its client any name, but it adds one of the headers above.
_TEST_CLIENT = "testclient"

_HTTP_SCHEMES = {"ws": "http", "wss": "https"}


class Peer(Enum):
    """Origin of a request: this process, this machine or another one."""

    SELF = "this process, as in-process test clients do"
    LOCAL = "this machine"
    ELSEWHERE = "another machine, or a proxy"


class RequiredToken(StrEnum):
    """Token that peers on other machines need."""

    NONE = "none"
    OF_VARIABLE = "the token that OPENENV_TOKEN holds"
    OF_FILE = "one of the tokens in the file that OPENENV_TOKENS names"
    OF_APPLICATION = "another token, which the application has set"


class AuthRequirement(NamedTuple):
    """Requirement of a server for its peers.

    Attributes:
        token: The token that peers on other machines need.
        trusts_this_machine: Whether peers on this machine need no token.
    """

    token: RequiredToken
    trusts_this_machine: bool = True


class Denial(NamedTuple):
    """Reason why a request is denied.

    Attributes:
        status: The HTTP status of the answer.
        detail: What was expected, what was received, and which setting allows it.
    """

    status: int
    detail: str


@dataclass(frozen=True)
class AccessPolicy:
    """Policy of who may use a server.

    Attributes:
        token: The token that peers on other machines must show; without it and ``tokens``, all of them are denied.
        tokens: Named tokens, each of which serves as well within its role; ``None`` for none.
        token_uses: What clients have open with them; ``None`` without named tokens.
        requires_token: Whether peers on other machines have to show a token at all.
        trusts_this_machine: Whether peers on this machine need no token.
        hosts: Further names of the server; ``*.example.com`` stands for all names below ``example.com``.
        origins: Origins of other sites whose pages may use the server.
        open_pages: Paths of pages that hold nothing of the environment; browsers may load them without a token.
    """

    token: str | None = field(default=None, repr=False)
    tokens: TokenFile | None = field(default=None, repr=False)
    token_uses: TokenUses | None = field(default=None, repr=False)
    requires_token: bool = True
    trusts_this_machine: bool = True
    hosts: frozenset[str] = frozenset()
    origins: frozenset[Origin] = frozenset()
    open_pages: frozenset[str] = frozenset()

    @classmethod
    def of(cls, config: ServerConfig) -> Self:
        """Return the policy that a server's settings describe.

        Raises:
            ConfigurationError: The file of named tokens can't be read, or is not valid.
        """
        tokens = None if config.tokens is None else TokenFile(config.tokens)
        return cls(
            token=config.token,
            tokens=tokens,
            token_uses=None if tokens is None else TokenUses(tokens),
            requires_token=config.requires_token,
            trusts_this_machine=config.trusts_this_machine,
            hosts=frozenset(config.allowed_hosts),
            origins=frozenset(filter(None, map(Origin.parse, config.allowed_origins))),
        )

    @property
    def auth_requirement(self) -> AuthRequirement:
        """Return the requirement for peers."""
        return AuthRequirement(self._required_token, self.trusts_this_machine)

    @property
    def denies_everybody(self) -> bool:
        """Whether peers on this machine need a token, too, and there is none."""
        return self.requires_token and not self._has_tokens and not self.trusts_this_machine

    @property
    def _has_tokens(self) -> bool:
        return self.token is not None or self.tokens is not None

    @property
    def _required_token(self) -> RequiredToken:
        if not self.requires_token:
            return RequiredToken.NONE
        if self.token is None and self.tokens is not None:
            return RequiredToken.OF_FILE
        is_of_variable = self.token == (os.environ.get(TOKEN_VARIABLE) or None)
        return RequiredToken.OF_VARIABLE if is_of_variable else RequiredToken.OF_APPLICATION

    def denial(self, scope: Scope) -> Denial | None:
        """Return why a request is denied; ``None`` for a request that is allowed.

        Args:
            scope: ASGI's description of the request, of type ``http`` or ``websocket``.
        """
        if _is_read_of(scope, _OPEN_PATHS):
            return None
        headers = Headers(scope=scope)
        denial = self._denial_of_peer(scope, headers)
        if denial is not None or _is_read_of(scope, self.open_pages):
            return denial
        return self._wrong_role(scope)

    def named_token(self, scope: Scope) -> NamedToken | None:
        """Return the named token that a request shows; ``None`` where it shows none.

        Args:
            scope: ASGI's description of the request.
        """
        return None if self.tokens is None else self._named(_tokens(Headers(scope=scope)), self.tokens)

    @staticmethod
    def _named(sent: Collection[bytes], tokens: TokenFile) -> NamedToken | None:
        return next(filter(None, map(tokens.find, sent)), None)

    def _wrong_role(self, scope: Scope) -> Denial | None:
        """Deny a request that the role of its token does not allow."""
        token = self.named_token(scope)
        needed = None if token is None else needed_role(scope)
        if token is None or self.tokens is None or token.allows(needed):
            return None
        self.tokens.refused[token.name] += 1
        roles = dict.fromkeys((needed, Role.OPERATE))
        return Denial(
            403,
            f"Expected a token with the role {' or '.join(map(str, roles))} for this request, got that of the name "
            f"{token.name}, with the role {token.role}.",
        )

    def _denial_of_peer(self, scope: Scope, headers: Headers) -> Denial | None:
        match _peer(scope, headers):
            case Peer.SELF:
                return None
            case Peer.LOCAL if self.trusts_this_machine:
                return (
                    self._wrong_token(headers) or self._wrong_host(scope, headers) or self._other_site(scope, headers)
                )
            case _ if _is_read_of(scope, self.open_pages):
                return None
            case _ if self.requires_token:
                return self._no_token(headers)
            case _:
                return self._other_site(scope, headers) or self._rebound_name(scope, headers)

    def _no_token(self, headers: Headers) -> Denial | None:
        if not self._has_tokens:
            answered = "only requests that come from its own machine and through no proxy"
            return Denial(
                401,
                f"This server answers {answered if self.trusts_this_machine else 'no requests'}, because it has no "
                f"token. Start it with one, as in {TOKEN_VARIABLE}=$(openssl rand -hex 24), and send it as "
                f"`Authorization: Bearer <token>`; or with {AUTH_VARIABLE}={AUTH_NONE}, to answer anybody.",
            )
        if not _tokens(headers):
            return Denial(
                401,
                "Expected this server's token as `Authorization: Bearer <token>`, got none. Clients take it from the "
                f"variable {TOKEN_VARIABLE} or the argument token=.",
            )
        return self._wrong_token(headers)

    def _wrong_token(self, headers: Headers) -> Denial | None:
        """Deny a token that is none of the server's; a request without any token passes here."""
        sent = _tokens(headers)
        if not self.requires_token or not self._has_tokens or not sent:
            return None
        expected = None if self.token is None else self.token.encode()
        if expected is not None and any(secrets.compare_digest(token, expected) for token in sent):
            return None
        if self.tokens is not None and self._named(sent, self.tokens) is not None:
            return None
        return Denial(401, "Expected this server's token in `Authorization: Bearer <token>`, got another one.")

    def _rebound_name(self, scope: Scope, headers: Headers) -> Denial | None:
        """Deny a page whose domain resolves to this server, so that its origin is the server's (DNS rebinding).

        DNS rebinding needs a name instead of an address, and no TLS: the site would need the server's certificate.
        """
        found = HOST_HEADER.fullmatch(headers.get("host", ""))
        if found is not None and address_of(found["name"].strip("[]")) is not None:
            return None
        origin = Origin.parse(headers.get("origin", ""))
        is_page_of_host = origin is not None and origin.scheme == "http" and origin not in self.origins
        return self._wrong_host(scope, headers) if self.hosts or is_page_of_host else None

    def _wrong_host(self, scope: Scope, headers: Headers) -> Denial | None:
        sent = headers.getlist("host")
        if len(sent) != 1:
            return Denial(403, f"Expected one Host header that names this machine, got {len(sent)}.")
        found = HOST_HEADER.fullmatch(sent[0])
        if found is not None and self._is_ours(found["name"].lower(), scope):
            return None
        return Denial(
            403,
            f"Expected a Host header that names this machine, as in localhost:8000, got {_quoted(sent[0])}. A page "
            "of another site may have sent this. If this is a name of the server, allow it with allowed_hosts=[...], "
            f"OPENENV_ALLOWED_HOSTS or `openenv serve --allowed-host`.",
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

    def _other_site(self, scope: Scope, headers: Headers) -> Denial | None:
        """Deny a request that a browser sends for a page of another site."""
        sent = headers.getlist("origin")
        if len(sent) > 1 or (sent and not self._is_own_or_allowed(Origin.parse(sent[0]), scope, headers)):
            return Denial(
                403,
                f"Expected a request of this server's own pages, got one of the origin {_quoted(', '.join(sent))}. If "
                f"pages of that origin may drive this server, allow it with allowed_origins=[...], "
                "OPENENV_ALLOWED_ORIGINS or `openenv serve --allowed-origin`.",
            )
        if not sent and _is_made_by_another_site(headers):
            return Denial(
                403,
                "Expected a request of this server's own pages, got one that a page of another site makes and that "
                "names no origin (Sec-Fetch-Site). A page of an allowed origin has to use fetch with mode 'cors'.",
            )
        return None

    def _is_own_or_allowed(self, origin: Origin | None, scope: Scope, headers: Headers) -> bool:
        if origin is None:
            return False
        scheme = _HTTP_SCHEMES.get(scope["scheme"], scope["scheme"])
        if not self.requires_token and origin.scheme == "https":  # a proxy may have terminated TLS
            scheme = "https"
        return origin in self.origins or origin == Origin.parse(f"{scheme}://{headers.get('host', '')}")


def new_token() -> str:
    """Return a new token that can't be guessed."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def needs_new_token(host: str, config: ServerConfig) -> bool:
    """Whether a server that listens on an address has clients that need a token, but no token.

    Args:
        host: The address.
        config: The server's settings.
    """
    is_trusting = not config.requires_token or (is_loopback(host) and config.trusts_this_machine)
    return config.token is None and config.tokens is None and not is_trusting


def policy_of(app: Any) -> AccessPolicy:
    """Return an application's policy: one that requires no token if the application has no guard."""
    access = getattr(getattr(app, "state", None), "openenv_access", None)
    return access if isinstance(access, AccessPolicy) else AccessPolicy(requires_token=False)


def auth_requirement_of(app: Any) -> AuthRequirement:
    """Return an application's requirement for peers: no token if it has no guard."""
    return policy_of(app).auth_requirement


def check_access(app: Any) -> None:
    """Check that an application which is about to be served answers somebody.

    Args:
        app: The application.

    Raises:
        ConfigurationError: It requires a token of everybody, and has none.
    """
    if policy_of(app).denies_everybody:
        raise ConfigurationError(
            f'Expected a token for the application, which requires one of everybody (auth="{AUTH_ALWAYS}"), got none: '
            f"set {TOKEN_VARIABLE}, as in {TOKEN_VARIABLE}=$(openssl rand -hex 24), or pass token= to create_app."
        )


def _is_read_of(scope: Scope, paths: Collection[str]) -> bool:
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    return scope["type"] == "http" and path in paths and scope["method"] in ("GET", "HEAD")


def _peer(scope: Scope, headers: Headers) -> Peer:
    """Return where a request comes from; in case of doubt, another machine."""
    if any(name in headers for name in _PROXY_HEADERS):
        return Peer.ELSEWHERE
    client = scope.get("client")
    if client is None:
        # A Unix socket's address has no port. A TCP connection that has been reset has no client either, although the
        # data before the reset can still be read.
        server = scope.get("server")
        return Peer.LOCAL if server is not None and server[1] is None else Peer.ELSEWHERE
    if client[0] == _TEST_CLIENT:
        return Peer.SELF
    address = address_of(str(client[0]))
    return Peer.LOCAL if address is not None and address.is_loopback else Peer.ELSEWHERE


def _tokens(headers: Headers) -> list[bytes]:
    """Return the tokens of a request. One of them is enough: a proxy may need ``Authorization`` for its own."""
    sent = (_bearer(headers), _api_key(headers), _token_of_page(headers))
    return [token for token in sent if token is not None]


def _bearer(headers: Headers) -> bytes | None:
    sent = headers.getlist("authorization")
    scheme, _, token = sent[0].partition(" ") if len(sent) == 1 else ("", "", "")
    return token.strip().encode("latin-1") if scheme.lower() == "bearer" else None


def _api_key(headers: Headers) -> bytes | None:
    sent = headers.getlist(API_KEY_HEADER)
    # Clients of ORS send this header, often empty.
    return sent[0].strip().encode("latin-1") or None if len(sent) == 1 else None


def _token_of_page(headers: Headers) -> bytes | None:
    """Return the token of a page's socket: a browser lets a page set no header but the subprotocols."""
    offered = ",".join(headers.getlist("sec-websocket-protocol")).split(",")
    tokens = [name.strip()[len(TOKEN_PROTOCOL) :] for name in offered if name.strip().startswith(TOKEN_PROTOCOL)]
    if len(tokens) != 1:
        return None
    padding = "=" * (-len(tokens[0]) % 4)
    try:
        return base64.urlsafe_b64decode(tokens[0] + padding) or None
    except ValueError:  # no base64: a wrong token
        return tokens[0].encode("latin-1")


def _is_made_by_another_site(headers: Headers) -> bool:
    """Whether a browser's headers say that a page of another site sends the request, other than by a link."""
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return False
    return (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) != ("navigate", "document")


def _quoted(value: str) -> str:
    return f"{value!r:.{_LONGEST_ECHO}}"
