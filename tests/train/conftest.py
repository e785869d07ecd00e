"""A served environment for the tests of the training."""

import sys
from collections.abc import Iterator

import pytest
from tests.support.environments.training import Climb, Stairs, StairsEnvironment
from tests.support.servers import RunningServer

from openenv.core.env_server.app import create_fastapi_app
from openenv.train.rollout.sessions import Sessions


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Small models are slower on two threads, most of all beside other work."""
    if "torch" in sys.modules:  # not imported for tests that do without
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(scope="module")
def stairs_server() -> Iterator[RunningServer]:
    """One server of stairs for a module."""
    with RunningServer(create_fastapi_app(StairsEnvironment, Climb, Stairs, max_concurrent_envs=24)) as server:
        yield server


@pytest.fixture
def stairs(stairs_server: RunningServer) -> Iterator[Sessions]:
    """Twelve sessions on it, known by its schema alone."""
    with Sessions.open(stairs_server.url, 12) as sessions:
        yield sessions
