"""A running reasoning-gym server."""

from collections.abc import Iterator

import pytest

from openenv.core.providers.local_process import LocalProcessProvider


@pytest.fixture(scope="session")
def reasoning_gym_url() -> Iterator[str]:
    """The address of a server with 64 sessions, in a process of its own."""
    with LocalProcessProvider("reasoning_gym", max_sessions=64) as server:
        server.wait_for_ready(60)
        yield server.base_url
