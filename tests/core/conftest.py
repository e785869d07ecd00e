"""Servers for the tests of clients, on either wire, and event loops that their tests leave behind."""

import gc
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.servers import RunningServer
from tests.support.vectors import WIRES, make_server


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    wire: str = request.param
    return wire


@pytest.fixture
def serve_on(wire: str) -> Iterator[Serve]:
    """Serve with either wire, for the length of a test."""
    with ExitStack() as servers:

        def start(*arguments: Any, **settings: Any) -> RunningServer:
            return servers.enter_context(make_server(wire, *arguments, **settings))

        yield start


@pytest.fixture
def abandoned_loops() -> Iterator[None]:
    """Collect in this thread what a test leaves on loops that have ended, as asyncio warns of it where it is collected.

    A server fails its test for warnings in the server's thread, and no later test gets one.
    """
    gc.disable()
    yield
    gc.enable()
    gc.collect()
