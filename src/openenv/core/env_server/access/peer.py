"""Address of the client that sent a request, or the name of its token, for the limits of clients."""

from ipaddress import IPv6Address, ip_address

from starlette.types import Scope

from openenv.core.addresses import token_client

LOOPBACK = "loopback"
"""Stands for all clients on the server's own machine: their addresses do not distinguish them."""
TOKEN_NAME = "openenv.token_name"  # noqa: S105  # its key, not a token
"""Key under which the guard puts the name of a request's token into its scope."""


def peer_address(scope: Scope) -> str:
    """Return the address of the client of an HTTP request or a WebSocket, or ``token:NAME``.

    Behind a proxy that the ASGI server trusts, this is the address that the proxy names. All clients with a named token
    are one.

    Args:
        scope: ASGI's description of the connection.

    Example:
        >>> peer_address({"type": "http", "client": ("::ffff:192.0.2.7", 4711)})
        '192.0.2.7'
        >>> peer_address({"type": "websocket", "client": ("127.0.0.1", 4711)})
        'loopback'
    """
    name = scope.get(TOKEN_NAME)
    if name is not None:
        return token_client(name)
    peer = scope.get("client")
    if peer is None:  # over a Unix socket
        return LOOPBACK
    try:
        address = ip_address(peer[0])
    except ValueError:  # a name that a proxy made up, or that of a test client
        return str(peer[0]).replace(":", "_")  # so that it is no token's
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return LOOPBACK if address.is_loopback else str(address)
