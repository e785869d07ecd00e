"""Other people's clients: fastmcp's, over HTTP and as the command that a desktop agent starts."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from tests.conftest import Serve
from tests.support.environments.common import PLACES
from tests.support.mcp_agents import NotesEnvironment, run
from tests.support.servers import RunningServer

from openenv.auto.discovery import find_environment
from openenv.core.environment_types import environment_types

ENVS = Path(__file__).parents[4] / "envs"
NOTES = environment_types(NotesEnvironment)
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "echo_env": ("echo_message", {"message": "hi"}),
    "wordle_env": ("wordle", {"word": "crane"}),
    "openspiel_env": ("open_spiel", {"action_id": 1}),
}


@pytest.fixture(scope="module", params=CALLS)
def packaged(request: pytest.FixtureRequest) -> Iterator[tuple[str, RunningServer]]:
    with RunningServer(find_environment(str(ENVS / request.param)).app()) as server:
        yield request.param, server


async def play(client: Client[Any], tool: str, arguments: dict[str, Any]) -> Any:
    async with client:
        assert tool in [one.name for one in await client.list_tools()]
        assert [prompt.name for prompt in await client.list_prompts()] == ["task"]
        await client.get_prompt("task")
        for one in await client.list_resources():
            assert await client.read_resource(one.uri)
        return await client.call_tool(tool, arguments)


def test_an_environment_of_the_house(packaged: tuple[str, RunningServer]) -> None:
    name, server = packaged
    result = run(play(Client(f"{server.url}/mcp?seed=1"), *CALLS[name]))
    assert not result.is_error
    server.wait_for_sessions(0)


@pytest.mark.parametrize("place", PLACES)
def test_wherever_an_environment_runs(serve: Serve, place: str) -> None:
    server = serve(PLACES[place])
    result = run(play(Client(f"{server.url}/mcp"), "add", {"amount": 3}))
    assert result.structured_content == {"total": 3, "done": False}


def test_in_a_process_of_its_own(serve: Serve) -> None:
    server = serve(NotesEnvironment, NOTES.action, NOTES.observation, isolation="process")
    result = run(play(Client(f"{server.url}/mcp"), "write", {"path": "a", "text": "b"}))
    assert result.content[0].text == "1 notes"


@pytest.mark.level("process")
def test_as_a_command(tmp_path: Path) -> None:
    transport = StdioTransport(
        sys.executable,
        ["-m", "openenv.cli", "mcp", str(ENVS / "wordle_env"), "--task", "seed=1"],
        log_file=tmp_path / "log",
    )
    result = run(play(Client(transport), "wordle", {"word": "crane"}))
    assert result.structured_content["guesses_left"] == 5
