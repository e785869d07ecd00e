"""A running server of blackjack."""

from collections.abc import Iterator

import pytest

from openenv.core.providers.local_process import LocalProcessProvider


@pytest.fixture(scope="session")
def blackjack_url() -> Iterator[str]:
    """The address of a blackjack server, in a process of its own."""
    with LocalProcessProvider("blackjack") as server:
        server.wait_for_ready()
        yield server.base_url
