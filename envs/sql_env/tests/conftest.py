"""A running SQL server, and workers."""

from collections.abc import Callable, Iterator

import psutil
import pytest

from openenv.core.providers.local_process import LocalProcessProvider
from sql_env.server.workers import Workers, shared_workers


@pytest.fixture(scope="session")
def sql_url() -> Iterator[str]:
    """The address of a server with 64 sessions, in a process of its own."""
    with LocalProcessProvider("sql", max_sessions=64) as server:
        server.wait_for_ready()
        yield server.base_url


@pytest.fixture(scope="session")
def workers() -> Workers:
    """The workers that environments in this process use."""
    return shared_workers()


@pytest.fixture
def children() -> Callable[[], list[psutil.Process]]:
    """Finds the processes that were started since the test began."""
    before = set(psutil.Process().children())
    return lambda: [process for process in psutil.Process().children() if process not in before]
