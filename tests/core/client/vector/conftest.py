"""Servers and clients for the tests of vectors."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.servers import RunningServer
from tests.support.vectors import WIRES, TaskEnvironment, make_server

from openenv.core.client.generic import GenericEnvClient


@pytest.fixture(scope="module", params=WIRES)
def server(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    """One server for all tests that leave it as they found it, on each wire."""
    with make_server(request.param, TaskEnvironment) as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[Any]:
    with GenericEnvClient(base_url=server.url, message_timeout_s=60).sync() as client:
        yield client
