"""Running servers of OpenSpiel and of the games in words."""

from collections.abc import Iterator

import pytest

from openenv.core.providers.local_process import LocalProcessProvider


@pytest.fixture(scope="session")
def openspiel_url() -> Iterator[str]:
    """The address of an OpenSpiel server with 64 sessions, in a process of its own."""
    with LocalProcessProvider("openspiel", max_sessions=64) as server:
        server.wait_for_ready()
        yield server.base_url


@pytest.fixture(scope="session")
def catch_url() -> Iterator[str]:
    """The address of a Catch server with as many sessions as it grants by itself, in a process of its own."""
    with LocalProcessProvider("catch") as server:
        server.wait_for_ready()
        yield server.base_url


@pytest.fixture(scope="session")
def blackjack_url() -> Iterator[str]:
    """The address of a blackjack server, in a process of its own."""
    with LocalProcessProvider("blackjack") as server:
        server.wait_for_ready()
        yield server.base_url


@pytest.fixture(scope="session")
def game_2048_url() -> Iterator[str]:
    """The address of a 2048 server, in a process of its own."""
    with LocalProcessProvider("2048") as server:
        server.wait_for_ready()
        yield server.base_url
