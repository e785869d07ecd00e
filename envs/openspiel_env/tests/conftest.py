"""Running OpenSpiel and Catch servers."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from openenv.core.containers.local_process import LocalProcessProvider

# A first example may load word lists or games, and the machine may be busy.
settings.register_profile("environments", deadline=None)
settings.load_profile("environments")


@pytest.fixture(scope="session")
def openspiel_url() -> Iterator[str]:
    """The address of an OpenSpiel server with 16 sessions, in a process of its own."""
    with LocalProcessProvider("openspiel", max_sessions=16) as server:
        server.wait_for_ready()
        yield server.base_url


@pytest.fixture(scope="session")
def catch_url() -> Iterator[str]:
    """The address of a Catch server with as many sessions as it grants by itself, in a process of its own."""
    with LocalProcessProvider("catch") as server:
        server.wait_for_ready()
        yield server.base_url
