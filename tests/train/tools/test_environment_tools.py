"""Tools as servers tell them: names, schemas, and the actions that calls are."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from tests.support.environments.lamp import DimAction, DimmableLamp
from tests.support.environments.moves import AnyMove, MapEnvironment
from tests.support.environments.tools import Notes
from tests.support.environments.training import Climb, Stairs, StairsEnvironment
from tests.support.legacy_server import legacy_app
from tests.support.servers import RunningServer

from openenv import Action, Environment, GenericEnvClient, Observation, State, tool
from openenv.adapters.text import ActionText
from openenv.core.client.blocking import wait_for
from openenv.core.client.mcp import MCPToolClient, fetch_tools
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.mcp_types import CallToolAction, Tool
from openenv.core.exceptions import ConfigurationError, ConnectionFailedError, InvalidRequestError
from openenv.core.typed_client import client_for
from openenv.core.wire.mcp_types import ListedTool
from openenv.train.tools.contents import call_content
from openenv.train.tools.environment_tools import EnvironmentTools


class GuessAction(Action):
    """Guess a word."""

    kind: Literal["guess"] = "guess"
    word: str


class Hint(Action):
    """Ask for a letter."""

    kind: Literal["hint"] = "hint"
    place: int = 0


class MixedEnvironment(Environment[GuessAction | Hint, Observation, State]):
    """Two kinds of actions beside a tool, whose name is that of an action."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True
    BLOCKING = False

    def reset(self, seed: int | None = None) -> Observation:
        return Observation()

    def step(self, action: GuessAction | Hint) -> Observation:
        return Observation(reward=1.0, metadata={"action": action.model_dump()})

    @tool
    def guess(self, letter: str) -> str:
        """Guess a letter."""
        return f"no {letter}"

    @property
    def state(self) -> State:
        return State()


def serve(environment: type, sessions: int = 4) -> RunningServer:
    return RunningServer(create_fastapi_app(environment, max_concurrent_envs=sessions))


@pytest.fixture(scope="module")
def mixed() -> Iterator[RunningServer]:
    with serve(MixedEnvironment) as server:
        yield server


@pytest.fixture(scope="module")
def notes() -> Iterator[RunningServer]:
    with serve(Notes) as server:
        yield server


def test_actions_and_tools_are_told_apart_and_reach_the_environment(mixed: RunningServer) -> None:
    with GenericEnvClient(base_url=mixed.url).sync() as client:
        tools = EnvironmentTools.of(client)
        client.reset()
        own = client.step(tools.action("guess", {"letter": "e"}))
        guessed = client.step(tools.action("guess_action", {"word": "crane"}))
        hinted = client.step(tools.action("hint", {}))

    assert tools.names == ("guess", "guess_action", "hint")
    assert call_content(own) == "no e"
    assert guessed.metadata == {"action": {"metadata": {}, "kind": "guess", "word": "crane"}}
    assert hinted.metadata == {"action": {"metadata": {}, "kind": "hint", "place": 0}}


def test_a_typed_client_gets_models_which_are_checked_here(mixed: RunningServer) -> None:
    with client_for(MixedEnvironment)(base_url=mixed.url).sync() as client:
        tools = EnvironmentTools.of(client)

        assert tools.action("hint", {"place": 2}) == Hint(place=2)
        assert tools.action("guess", {"letter": "e"}) == CallToolAction(tool_name="guess", arguments={"letter": "e"})
        with pytest.raises(InvalidRequestError, match="word: Field required"):
            tools.action("guess_action", {})


def test_members_of_a_root_model_are_tools_and_reach_the_environment_as_the_whole() -> None:
    with serve(MapEnvironment) as server, client_for(MapEnvironment)(base_url=server.url).sync() as client:
        tools = EnvironmentTools.of(client)
        assert tools.names == ("go", "stay", "look")
        action = tools.action("go", {"way": "left"})
        assert action == AnyMove.model_validate({"kind": "go", "way": "left"})
        assert tools.call(action) == ("go", {"way": "left"})
        client.reset()
        assert client.step(action).observation.text == '{"kind":"go","way":"left"}'
    actions = ActionText(AnyMove)
    assert '"far" (one of 0, 1, 2, 3: how far)' in actions.instructions()
    assert actions.read('{"kind": "look", "far": 2}').action == AnyMove.model_validate({"kind": "look", "far": 2})


def test_a_class_that_makes_actions_of_tools_beside_its_own_is_one_of_them() -> None:
    with serve(DimmableLamp) as server, client_for(DimmableLamp)(base_url=server.url).sync() as client:
        tools = EnvironmentTools.of(client)
        assert tools.names == ("switch", "dim")
        assert tools.action("dim", {"level": 3}) == DimAction(level=3)
        assert tools.action("switch", {}) == CallToolAction(tool_name="switch", arguments={})
        with pytest.raises(InvalidRequestError, match="level: "):
            tools.action("dim", {"level": "high"})


def test_a_client_of_tools_takes_actions_without_their_classes(mixed: RunningServer) -> None:
    with MCPToolClient(base_url=mixed.url).sync() as client:
        tools = EnvironmentTools.of(client)
        client.reset()

        result = client.step(tools.action("hint", {"place": 1}))

    assert result.metadata == {"action": {"metadata": {}, "kind": "hint", "place": 1}}


@pytest.mark.parametrize("name", ["guess_action", "hint", "guess"])
def test_a_call_is_told_from_its_action(mixed: RunningServer, name: str) -> None:
    calls: dict[str, dict[str, Any]] = {
        "guess_action": {"word": "crane"},
        "hint": {"place": 3},
        "guess": {"letter": "e"},
    }
    arguments = calls[name]
    for client_class in (GenericEnvClient, client_for(MixedEnvironment), MCPToolClient):
        client = client_class(base_url=mixed.url).sync()
        try:
            tools = EnvironmentTools.of(client)
            assert tools.call(tools.action(name, arguments)) == (name, arguments)
        finally:
            client.close()


def test_what_an_action_is_has_to_be_known(mixed: RunningServer) -> None:
    with GenericEnvClient(base_url=mixed.url).sync() as client:
        tools = EnvironmentTools.of(client)

    with pytest.raises(ConfigurationError, match="Expected an action of this environment"):
        tools.call({"kind": "jump"})


def test_the_model_is_told_what_is_wrong_with_a_call(mixed: RunningServer) -> None:
    with GenericEnvClient(base_url=mixed.url).sync() as client:
        tools = EnvironmentTools.of(client)

    with pytest.raises(InvalidRequestError, match=r"no tool 'jump'; the tools are guess, guess_action, hint\."):
        tools.action("jump", {})
    with pytest.raises(InvalidRequestError, match="kind: Extra inputs are not permitted"):
        tools.action("hint", {"kind": "guess"})
    with pytest.raises(InvalidRequestError, match="metadata: Extra inputs"):
        tools.action("hint", {"metadata": {"cheat": True}})
    with pytest.raises(InvalidRequestError, match="expected the arguments as an object"):
        tools.action("hint", ["place"])  # type: ignore[arg-type]


def test_tools_of_a_task_are_found_after_its_reset(notes: RunningServer) -> None:
    with GenericEnvClient(base_url=notes.url).sync() as client:
        before = EnvironmentTools.of(client)
        client.reset()
        with_task = EnvironmentTools.of(client, {"shared": True})
        client.step(before.action("write", {"path": "a", "text": "b"}))  # the client's own session goes on

    assert "send" not in before.names
    assert with_task.names == (*before.names, "send")


def test_a_question_needs_one_place_and_gives_it_back(notes: RunningServer) -> None:
    with serve(Notes, sessions=1) as server:
        client = GenericEnvClient(base_url=server.url, capacity_wait_s=30).sync()
        EnvironmentTools.of(client, {})
        client.reset()
        client.close()


def test_a_public_server_s_actions_are_read_off_their_schema() -> None:
    with RunningServer(legacy_app()) as server, GenericEnvClient(base_url=server.url).sync() as client:
        tools = EnvironmentTools.of(client)
        client.reset(seed=1)
        result = client.step(tools.action("say", {"text": "hi", "loud": True}))

    assert tools.names == ("say",)
    function = tools.schemas()[0]["function"]
    assert function["description"] == "Say something."
    assert function["parameters"]["required"] == ["text"]
    assert function["parameters"]["properties"]["to"]["enum"] == ["all", "me"]
    assert call_content(result) == "HI"


def test_only_an_environment_of_our_own_server_offers_its_actions_beside_its_tools() -> None:
    """A public one that lists tools says by that what agents can do."""
    listed = [Tool(name="echo_message", description="Say it.", input_schema={"type": "object", "properties": {}})]

    tools = EnvironmentTools.read(listed, Climb.model_json_schema(), GenericEnvClient(base_url="http://localhost:1"))

    assert tools.names == ("echo_message",)
    assert tools.action("echo_message", {}) == {"type": "call_tool", "tool_name": "echo_message", "arguments": {}}


def test_a_server_names_its_actions_tools_as_it_likes() -> None:
    form = {"type": "object", "properties": {"move": {"type": "string"}}}
    own = Tool(name="climb", description="Look up.", input_schema={"type": "object", "properties": {}})
    listed = [own, ListedTool(name="go_up", description="Climb.", input_schema=form, action="Climb")]

    tools = EnvironmentTools.read(listed, Climb.model_json_schema(), GenericEnvClient(base_url="http://localhost:1"))

    assert tools.action("climb", {}) == {"type": "call_tool", "tool_name": "climb", "arguments": {}}
    assert tools.action("go_up", {"move": "up"}) == {"move": "up"}


def test_without_tools_and_actions_there_is_nothing_to_do() -> None:
    with pytest.raises(ConfigurationError, match="offers no tools"):
        EnvironmentTools.read([], {}, GenericEnvClient(base_url="http://localhost:1"))


def test_without_a_server_there_are_none() -> None:
    with pytest.raises(ConnectionFailedError):
        EnvironmentTools.of(GenericEnvClient(base_url="http://127.0.0.1:9"))


def test_tools_are_listed_through_a_client_of_any_class() -> None:
    app = create_fastapi_app(StairsEnvironment, Climb, Stairs, max_concurrent_envs=1)
    with RunningServer(app) as server, GenericEnvClient(base_url=server.url) as client:
        assert [(each.name, each.action) for each in wait_for(fetch_tools, client)] == [("climb", "Climb")]
