"""A running terminal server, and environments."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openenv.core.providers.local_process import LocalProcessProvider
from terminal_env.server.terminal_environment import TerminalEnvironment

Make = Callable[[str], TerminalEnvironment]


@pytest.fixture(scope="session")
def terminal_url() -> Iterator[str]:
    """The address of a server, in a process of its own."""
    with LocalProcessProvider("terminal", max_sessions=8) as server:
        server.wait_for_ready()
        yield server.base_url


@pytest.fixture
def environment() -> Iterator[TerminalEnvironment]:
    """An environment that was not reset."""
    made = TerminalEnvironment()
    yield made
    made.close()


@pytest.fixture
def environment_with(tmp_path: Path) -> Iterator[Make]:
    """Makes an environment with the tasks of a JSON file, of which the text is given."""
    made: list[TerminalEnvironment] = []

    def make(text: str) -> TerminalEnvironment:
        file = tmp_path / f"tasks{len(made)}.json"
        file.write_text(text, encoding="utf-8")
        made.append(TerminalEnvironment(file))
        return made[-1]

    yield make
    for one in made:
        one.close()
