"""Servers for the tests of the adapter."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.environments.gymnasium import (
    Drive,
    DriveEnvironment,
    Driven,
    Free,
    FreeEnvironment,
    Move,
    Place,
    WalkEnvironment,
)
from tests.support.servers import RunningServer

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.providers.local_process import LocalProcessProvider

CARTPOLE = Path(__file__).parents[3] / "examples" / "cartpole_env"


@pytest.fixture(scope="module")
def cartpole_url() -> Iterator[str]:
    """The address of the example's server, in a process of its own."""
    with LocalProcessProvider(CARTPOLE, max_sessions=64) as provider:
        provider.wait_for_ready()
        yield provider.base_url


@pytest.fixture
def walk_server() -> Iterator[RunningServer]:
    with RunningServer(create_fastapi_app(WalkEnvironment, Move, Place, max_concurrent_envs=16)) as server:
        yield server


@pytest.fixture
def free_server() -> Iterator[RunningServer]:
    with RunningServer(create_fastapi_app(FreeEnvironment, Move, Free, max_concurrent_envs=4)) as server:
        yield server


@pytest.fixture
def drive_server() -> Iterator[RunningServer]:
    with RunningServer(create_fastapi_app(DriveEnvironment, Drive, Driven, max_concurrent_envs=4)) as server:
        yield server
