"""A running server of 2048."""

from collections.abc import Iterator

import pytest

from openenv.core.providers.local_process import LocalProcessProvider


@pytest.fixture(scope="session")
def game_2048_url() -> Iterator[str]:
    """The address of a 2048 server, in a process of its own."""
    with LocalProcessProvider("2048") as server:
        server.wait_for_ready()
        yield server.base_url
