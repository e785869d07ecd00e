"""Players of isolated environments, and a look at what they leave behind."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.environments.common import Do, Shown
from tests.support.environments.isolated import Isolated
from tests.support.servers import RunningServer, Wire

from openenv.core.env_server.app import create_fastapi_app

ServeIsolated = Callable[..., RunningServer]


class Player:
    """A session on a server, reset and ready to do things."""

    def __init__(self, server: RunningServer, **reset: Any) -> None:
        self.wire: Wire = server.wire()
        self.first = self.wire.reset(**reset)

    def ask(self, what: str) -> dict[str, Any]:
        return self.wire.step(what=what)

    def do(self, what: str) -> Any:
        """Do something that succeeds, and return what it shows."""
        answer = self.ask(what)
        assert answer["type"] == "observation", answer
        return answer["data"]["observation"]["value"]

    def fail(self, what: str) -> dict[str, Any]:
        """Do something that fails, and return the error."""
        return failure(self.ask(what))

    def again(self) -> int:
        """Reset, and return the process that it is in then."""
        assert self.wire.reset()["type"] == "observation"
        process: int = self.do("pid")
        return process


def failure(answer: dict[str, Any]) -> dict[str, Any]:
    assert answer["type"] == "error", answer
    data: dict[str, Any] = answer["data"]
    return data


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


@pytest.fixture
def serve_isolated() -> Iterator[ServeIsolated]:
    """Serve with isolation for the length of a test: ``serve_isolated(env, **settings)``."""
    with ExitStack() as servers:

        def start(env: Any = Isolated, **settings: Any) -> RunningServer:
            settings = {"max_concurrent_envs": 16, "isolation": "process", **settings}
            return servers.enter_context(RunningServer(create_fastapi_app(env, Do, Shown, **settings)))

        yield start


@pytest.fixture(scope="module")
def isolated() -> Iterator[RunningServer]:
    """One server, a process for each session, for the tests of a module that leave it as they found it."""
    app = create_fastapi_app(Isolated, Do, Shown, max_concurrent_envs=64, isolation="process", step_timeout_s=30)
    with RunningServer(app) as server:
        yield server


@pytest.fixture
def play(isolated: RunningServer) -> Iterator[Callable[[], Player]]:
    """Open sessions on that server for the length of a test."""
    with ExitStack() as players:

        def start() -> Player:
            player = Player(isolated)
            players.callback(player.wire.close)
            return player

        yield start
