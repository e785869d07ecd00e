"""A running TextArena server."""

from collections.abc import Iterator

import pytest

from openenv.core.providers.local_process import LocalProcessProvider


@pytest.fixture(scope="session")
def textarena_url() -> Iterator[str]:
    """The address of a server with 80 sessions, in a process of its own."""
    with LocalProcessProvider("textarena", max_sessions=80) as server:
        server.wait_for_ready()
        yield server.base_url
