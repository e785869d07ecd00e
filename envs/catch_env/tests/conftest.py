"""A running server of Catch."""

from collections.abc import Iterator

import pytest

from openenv.core.providers.local_process import LocalProcessProvider


@pytest.fixture(scope="session")
def catch_url() -> Iterator[str]:
    """The address of a Catch server with as many sessions as it grants by itself, in a process of its own."""
    with LocalProcessProvider("catch") as server:
        server.wait_for_ready()
        yield server.base_url
