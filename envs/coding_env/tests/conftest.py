"""A running coding server."""

from collections.abc import Iterator

import pytest

from openenv.core.providers.local_process import LocalProcessProvider


@pytest.fixture(scope="session")
def coding_url() -> Iterator[str]:
    """The address of a server with 64 sessions, in a process of its own."""
    variables = {"CODING_WALL_S": "2", "CODING_OUTPUT_BYTES": "2000", "CODING_READY": "4"}
    with LocalProcessProvider("coding", max_sessions=64, env_vars=variables) as server:
        server.wait_for_ready()
        yield server.base_url
