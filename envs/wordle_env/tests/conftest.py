"""A running Wordle server."""

from collections.abc import Iterator

import pytest

from openenv.core.providers.local_process import LocalProcessProvider


@pytest.fixture(scope="session")
def wordle_url() -> Iterator[str]:
    """The address of a server with 32 sessions, in a process of its own."""
    with LocalProcessProvider("wordle", max_sessions=32) as server:
        server.wait_for_ready()
        yield server.base_url


@pytest.fixture(scope="session")
def textarena_url() -> Iterator[str]:
    """The address of the neighbouring TextArena environment, which serves Wordle, in a process of its own."""
    with LocalProcessProvider("textarena", max_sessions=8) as server:
        server.wait_for_ready()
        yield server.base_url
