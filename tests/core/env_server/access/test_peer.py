"""Who counts as one client."""

from typing import Any

import pytest

from openenv.core.addresses import token_name
from openenv.core.env_server.access.peer import LOOPBACK, TOKEN_NAME, peer_address


@pytest.mark.parametrize(
    ("peer", "client"),
    [
        (("192.0.2.7", 1), "192.0.2.7"),
        (["192.0.2.7", 2], "192.0.2.7"),
        (("::ffff:192.0.2.7", 1), "192.0.2.7"),
        (("2001:DB8::7", 1), "2001:db8::7"),
        (("127.0.0.1", 1), LOOPBACK),
        (("127.9.9.9", 1), LOOPBACK),
        (("::1", 1), LOOPBACK),
        (("::ffff:127.0.0.1", 1), LOOPBACK),
        (("made-up", 0), "made-up"),
        (("token:made-up", 0), "token_made-up"),
        (None, LOOPBACK),
    ],
)
def test_the_address_is_the_client(peer: Any, client: str) -> None:
    assert peer_address({"type": "websocket", "client": peer}) == client


def test_a_named_token_is_one_client_from_every_address() -> None:
    for peer in (("192.0.2.7", 1), ("127.0.0.1", 1), None):
        client = peer_address({"type": "http", "client": peer, TOKEN_NAME: "trainer"})
        assert (client, token_name(client)) == ("token:trainer", "trainer")
    assert [token_name(client) for client in (None, LOOPBACK, "192.0.2.7")] == [None] * 3


def test_no_address_at_all() -> None:
    assert peer_address({"type": "http"}) == LOOPBACK
