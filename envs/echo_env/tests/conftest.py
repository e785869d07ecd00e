"""A running echo server."""

from collections.abc import Iterator

import pytest

from openenv.core.providers.local_process import LocalProcessProvider


@pytest.fixture(scope="session")
def echo_url() -> Iterator[str]:
    """The address of a server with 32 sessions, in a process of its own."""
    with LocalProcessProvider("echo", max_sessions=32) as server:
        server.wait_for_ready()
        yield server.base_url
