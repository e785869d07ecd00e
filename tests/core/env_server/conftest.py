"""Servers of walks, which sessions go on in, fork and are recovered from."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.programs.journaled_server import Walk
from tests.support.servers import RunningServer
from tests.support.walkers import ServeWalks, walk_server


@pytest.fixture
def serve_walks() -> Iterator[ServeWalks]:
    """Start servers of walks, which end with the test."""
    with ExitStack() as servers:

        def start(environment: Any = Walk, **settings: Any) -> RunningServer:
            return servers.enter_context(walk_server(environment, **settings))

        yield start


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def serve_journaled(serve_walks: ServeWalks, journal: Path) -> ServeWalks:
    """Start servers of walks on one journal, if they aren't given another."""

    def start(environment: Any = Walk, path: Path = journal, **settings: Any) -> RunningServer:
        return serve_walks(environment, journal=path, **settings)

    return start
