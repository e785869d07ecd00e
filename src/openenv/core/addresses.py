"""Addresses of servers, and which of them are this machine's own."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit

_SOCKET_SCHEMES = {"http": "ws", "https": "wss"}
# Addresses that stand for all of a machine's, and the one by which it reaches itself.
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
_ANY_IN_URL = re.compile(r"(?:\w+://)?(?:\[(?=::\]))?(?P<host>0\.0\.0\.0|(?<=\[)::(?=\]))(?=[:/\]]|$)")
_NAME = r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)"
_PORT = r"(?::(?P<port>[0-9]{1,5}))?"
_ORIGIN = re.compile(rf"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://{_NAME}{_PORT}")
_OF_SERVER = ("/ws", "/web")
_DEFAULT_PORTS = {"http": 80, "https": 443}
HOST_HEADER = re.compile(_NAME + _PORT)
"""What the header ``Host`` of a request may hold."""


class Origin(NamedTuple):
    """The origin of a page in one form: lower case, the port spelled out.

    Example:
        >>> str(Origin.parse("HTTPS://Example.com:443"))
        'https://example.com'
    """

    scheme: str
    name: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read an origin; ``None`` where the text is none, such as ``null``."""
        found = _ORIGIN.fullmatch(text)
        if found is None:
            return None
        scheme = found["scheme"].lower()
        port = int(found["port"]) if found["port"] else _DEFAULT_PORTS.get(scheme)
        return cls(scheme, found["name"].lower(), port)

    def __str__(self) -> str:
        """Write the origin as browsers do, without the default port of its scheme."""
        port = "" if self.port in (None, _DEFAULT_PORTS.get(self.scheme)) else f":{self.port}"
        return f"{self.scheme}://{self.name}{port}"


def passwords_in(address: str) -> list[str]:
    """List the passwords of an address as it spells them, and as they are.

    Example:
        >>> passwords_in("postgresql://me:two%20words@db/journal")
        ['two%20words', 'two words']
    """
    try:
        parts = urlsplit(address)
    except ValueError:
        return []
    query = parse_qs(parts.query)
    given = [parts.password or "", *query.get("password", []), *query.get("sslpassword", [])]
    return list(dict.fromkeys(form for password in given for form in (password, unquote(password)) if form))


def url_of(host: str, port: int, *, https: bool = False) -> str:
    """Write the address of a server.

    Args:
        host: A name, or an address without brackets.
        port: The port.
        https: Whether it has a certificate.

    Example:
        >>> url_of("::1", 8000), url_of("example.com", 443, https=True)
        ('http://[::1]:8000', 'https://example.com:443')
    """
    return f"{'https' if https else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def server_address(url: str) -> str:
    """Return a server's address for that of its socket or of its page, which people copy; a query stays.

    Args:
        url: The address, with or without a scheme.

    Example:
        >>> server_address("https://example.org/wordle/web?theme=dark#board"), server_address("ws://web:8000/ws")
        ('https://example.org/wordle?theme=dark', 'ws://web:8000')
    """
    rest, mark, query = url.partition("#")[0].partition("?")
    rest = rest.rstrip("/")
    for end in _OF_SERVER:
        without = rest.removesuffix(end)
        if without != rest and not without.endswith("/"):  # else it is the host
            rest = without.rstrip("/")
            break
    return f"{rest}{mark}{query}"


def url_with_path(url: str, path: str) -> str:
    """Add a path to an address, before its query.

    Example:
        >>> url_with_path("http://example.org/wordle/?theme=dark", "/health")
        'http://example.org/wordle/health?theme=dark'
    """
    rest, mark, query = url.partition("?")
    return f"{rest.rstrip('/')}{path}{mark}{query}"


def without_query(url: str) -> str:
    """Return an address for messages: a query may hold what gives access.

    Example:
        >>> without_query("ws://example.org/ws?key=s3cret")
        'ws://example.org/ws'
    """
    return url.partition("?")[0]


def convert_to_ws_url(url: str) -> str:
    """Return a server's address with the scheme of WebSockets.

    Args:
        url: The server's address.

    Example:
        >>> convert_to_ws_url("https://example.org/wordle/")
        'wss://example.org/wordle'
    """
    scheme, separator, rest = url.rstrip("/").partition("://")
    if not separator:
        return f"ws://{scheme}"
    scheme = scheme.lower()
    return f"{_SOCKET_SCHEMES.get(scheme, scheme)}://{rest}"


def socket_url(url: str) -> str:
    """Return the address of a server's socket.

    Args:
        url: The server's address.

    Example:
        >>> socket_url("https://example.org/wordle/")
        'wss://example.org/wordle/ws'
    """
    return url_with_path(convert_to_ws_url(url), "/ws")


def is_any(host: str) -> bool:
    """Say whether a server that listens on an address listens on all of its machine's.

    Example:
        >>> is_any("0.0.0.0"), is_any("127.0.0.1")
        (True, False)
    """
    return host in _ANY


def reachable(host: str) -> str:
    """Return the address by which this machine reaches a server of its own that listens on an address.

    Example:
        >>> reachable("0.0.0.0"), reachable("192.0.2.7")
        ('127.0.0.1', '192.0.2.7')
    """
    return _ANY.get(host, host)


def reachable_url(url: str) -> str:
    """Return the URL by which this machine reaches a server of its own, where one names all addresses at once.

    Args:
        url: An address of a server, with or without a scheme.

    Example:
        >>> reachable_url("http://0.0.0.0:8001"), reachable_url("example.com:8000/wordle")
        ('http://127.0.0.1:8001', 'example.com:8000/wordle')
    """
    found = _ANY_IN_URL.match(url)
    if found is None:
        return url
    return f"{url[: found.start('host')]}{reachable(found['host'])}{url[found.end('host') :]}"


def is_loopback(host: str) -> bool:
    """Say whether a host name or address is this machine's own.

    Args:
        host: A name, or an address without brackets.

    Example:
        >>> is_loopback("localhost"), is_loopback("127.0.0.7"), is_loopback("::1"), is_loopback("example.com")
        (True, True, True, False)
    """
    name = host.lower().removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = address_of(host)
    return address is not None and address.is_loopback


def is_on_this_machine(url: str) -> bool:
    """Say whether who connects to a URL reaches this machine, for which no proxy can stand in.

    Example:
        >>> is_on_this_machine("ws://[::1]:8000/ws"), is_on_this_machine("http://0.0.0.0:8000")
        (True, True)
    """
    host = urlsplit(url).hostname or ""
    address = address_of(host)
    return is_loopback(host) or (address is not None and address.is_unspecified)


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """Read an IP address; ``None`` where it is none.

    An IPv4 address that a socket for both versions shows as one of IPv6 becomes what it is.

    Example:
        >>> address_of("::ffff:192.0.2.7"), address_of("example.com")
        (IPv4Address('192.0.2.7'), None)
    """
    try:
        address = ip_address(host)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


_TOKEN_CLIENT = "token:"  # noqa: S105  # a beginning, not a token


def token_client(name: str) -> str:
    """Return the client that all peers with a named token are, as ``token:NAME``."""
    return f"{_TOKEN_CLIENT}{name}"


def token_name(client: str | None) -> str | None:
    """Return the name of a client's token; ``None`` for a client without a named token.

    Args:
        client: The client: an address, or as ``token_client`` returns it.
    """
    return client.removeprefix(_TOKEN_CLIENT) if client is not None and client.startswith(_TOKEN_CLIENT) else None
