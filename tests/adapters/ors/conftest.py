"""A server made with the OpenReward SDK, and peace from its looking for updates."""

import os
from collections.abc import Iterator

import pytest
from tests.support.servers import PROGRAMS, ServerProcess

# TRL asks when it is imported, which is before any fixture.
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

SERVER = PROGRAMS / "ors_server.py"


@pytest.fixture(autouse=True, scope="session")
def no_outside() -> Iterator[None]:
    """Keep the SDK from asking for its newest version, and from a key of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENREWARD_DISABLE_UPDATE_CHECK", "1")
        patch.delenv("OPENREWARD_API_KEY", raising=False)
        yield


@pytest.fixture(scope="package")
def sdk_server() -> Iterator[ServerProcess]:
    """Environments made with the SDK, served by the SDK: a riddle first, then odd ones."""
    with ServerProcess(str(SERVER)) as server:
        yield server
