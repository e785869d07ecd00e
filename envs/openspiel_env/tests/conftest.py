"""A running server of OpenSpiel."""

from collections.abc import Iterator

import pytest

from openenv.core.providers.local_process import LocalProcessProvider


@pytest.fixture(scope="session")
def openspiel_url() -> Iterator[str]:
    """The address of an OpenSpiel server with 64 sessions, in a process of its own."""
    with LocalProcessProvider("openspiel", max_sessions=64) as server:
        server.wait_for_ready()
        yield server.base_url
