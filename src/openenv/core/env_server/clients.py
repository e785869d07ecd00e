"""Which client a request comes from, for the limits that hold for each client."""

from ipaddress import IPv6Address, ip_address

from starlette.types import Scope

LOOPBACK = "loopback"
"""All clients on the server's own machine, which no address tells apart."""


def client_of(scope: Scope) -> str:
    """Name the client of an HTTP request or a WebSocket by its address.

    Behind a proxy that the ASGI server trusts, this is the address that the proxy names.

    Args:
        scope: ASGI's description of the connection.

    Example:
        >>> client_of({"type": "http", "client": ("::ffff:192.0.2.7", 4711)})
        '192.0.2.7'
        >>> client_of({"type": "websocket", "client": ("127.0.0.1", 4711)})
        'loopback'
    """
    peer = scope.get("client")
    if peer is None:  # over a Unix socket
        return LOOPBACK
    try:
        address = ip_address(peer[0])
    except ValueError:  # what a proxy made up, or a test client
        return str(peer[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return LOOPBACK if address.is_loopback else str(address)
