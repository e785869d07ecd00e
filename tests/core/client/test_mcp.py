"""Clients by tools, on both wires, against environments of every style."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.proxy import Proxy, Way
from tests.support.servers import RunningServer, answering
from websockets.sync.server import ServerConnection

from openenv import Environment, ToolResult, tool
from openenv.core import MCPClientBase, MCPToolClient
from openenv.core.client.mcp import GenericMCPObservation
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    ToolErrorType,
)
from openenv.core.env_server.types import Observation, State
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    InvalidAnswerError,
    ServerCapacityError,
    ServerProductionModeError,
    ToolCallError,
)


class Greeting(Observation):
    """What a shop says."""

    greeting: str


class ShopEnvironment(Environment):
    """Sells what is on the task's list."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True

    def __init__(self) -> None:
        super().__init__()
        self.sold: list[str] = []
        self.gift = ""

    def reset(self, gift: str = "") -> Greeting:
        self.sold, self.gift = [], gift
        return Greeting(greeting="Hello!")

    @tool
    def sell(self, name: str, count: int = 1) -> dict[str, Any]:
        """Sell something.

        Args:
            name: What.
            count: How many.
        """
        self.sold += [name] * count
        return {"sold": len(self.sold)}

    @tool
    async def whisper(self, text: str) -> str:
        """Say it back.

        Args:
            text: What.
        """
        return text

    @tool
    def nothing(self) -> None:
        """Do nothing."""

    @tool
    def fall(self) -> None:
        """Fall."""
        raise ValueError("it's slippery")

    @tool(terminal=True)
    def close_up(self) -> ToolResult:
        """Close the shop."""
        return ToolResult("closed", reward=len(self.sold))

    def task_tools(self) -> Iterable[Callable[..., Any]]:
        return [self.give] if self.gift else []

    def give(self) -> str:
        """Give the gift away."""
        return self.gift


SHOP = ["sell", "whisper", "nothing", "fall", "close_up"]


class Catalogue(Observation):
    """Lists tools with MCP's name of the schema."""

    tools: list[dict[str, Any]]


class CatalogueEnvironment(Environment[Add, Catalogue, State]):
    """Answers every action with a list of tools."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, **kwargs: Any) -> Catalogue:
        return self.step(Add(amount=0))

    def step(self, action: Add, *args: Any, **kwargs: Any) -> Catalogue:
        return Catalogue(tools=[{"name": "find", "description": "", "inputSchema": {"type": "object"}}])

    @property
    def state(self) -> State:
        return State()


@pytest.fixture
def shop(serve_on: Serve) -> RunningServer:
    return serve_on(ShopEnvironment, CallToolAction, CallToolObservation)


async def test_tools_are_listed_and_called_in_the_session_that_is_reset(shop: RunningServer) -> None:
    async with MCPToolClient(base_url=shop.url) as env:
        start = await env.reset()
        assert isinstance(start.observation, GenericMCPObservation)
        assert start.observation.model_extra == {"greeting": "Hello!"}
        assert {one.name for one in await env.list_tools()} >= set(SHOP)
        assert await env.call_tool("sell", name="hat") == {"sold": 1}
        assert await env.call_tool("whisper", text="psst") == "psst"
        assert await env.call_tool("nothing") is None
        result = await env.step(CallToolAction(tool_name="sell", arguments={"name": "coat", "count": 2}))
        assert result.observation == CallToolObservation(tool_name="sell", result={"sold": 3})
        assert (await env.state()).step_count == 4
        shop.wait_for_sessions(1)
    shop.wait_for_sessions(0)


async def test_a_list_of_tools_may_have_the_schemas_under_mcps_name(serve_on: Serve) -> None:
    async with MCPToolClient(base_url=serve_on(CatalogueEnvironment, Add, Catalogue).url) as env:
        observation = (await env.step(Add(amount=1))).observation
    assert isinstance(observation, ListToolsObservation)
    assert observation.tools[0].input_schema == {"type": "object"}


def test_all_of_it_blocks_where_no_loop_runs(shop: RunningServer) -> None:
    env: Any = MCPToolClient(base_url=shop.url)
    env.reset()
    assert env.has_tool("sell")
    assert env.get_tool("sell").input_schema["required"] == ["name"]
    assert env.call_tool("sell", name="hat") == {"sold": 1}
    assert env.step(CallToolAction(tool_name="sell", arguments={"name": "hat"})).observation.result == {"sold": 2}
    env.close()


async def test_the_facade_blocks_inside_a_loop(shop: RunningServer) -> None:
    with MCPToolClient(base_url=shop.url).sync() as env:
        env.reset()
        assert [one.name for one in env.list_tools()][:5] == SHOP
        assert env.call_tool("whisper", text="psst") == "psst"
        assert not env.has_tool("steal")
        assert env.get_tool("steal") is None


def test_an_agent_need_not_reset(shop: RunningServer) -> None:
    with MCPToolClient(base_url=shop.url).sync() as env:
        assert env.list_tools()
        assert env.call_tool("sell", name="hat") == {"sold": 1}
        assert env.state().step_count == 1


def test_a_parameter_may_be_called_name_and_so_may_the_tool_s(shop: RunningServer) -> None:
    with MCPToolClient(base_url=shop.url).sync() as env:
        env.reset()
        assert env.call_tool("sell", name="hat", count=3) == {"sold": 3}
        assert env.call_tool(name="whisper", text="psst") == "psst"
        with pytest.raises(TypeError, match="the tool's name first"):
            env.call_tool(text="psst")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (("fall", {}), "Tool 'fall' failed: it's slippery"),
        (("steal", {}), "Tool 'steal' failed: Unknown tool: 'steal'"),
        (("sell", {"count": 1}), "Tool 'sell' failed: name: Field required"),
        (("reset", {}), "Tool 'reset' failed: Unknown tool: 'reset'"),
    ],
)
def test_a_failed_call_says_why_and_the_episode_goes_on(
    shop: RunningServer, call: tuple[str, dict[str, Any]], sentence: str
) -> None:
    name, arguments = call
    with MCPToolClient(base_url=shop.url).sync() as env:
        env.reset()
        with pytest.raises(ToolCallError) as raised:
            env.call_tool(name, **arguments)
        assert str(raised.value) == sentence
        assert isinstance(raised.value, RuntimeError)
        assert raised.value.tool_name == name
        seen = env.step(CallToolAction(tool_name=name, arguments=arguments)).observation
        assert isinstance(seen, CallToolObservation)
        assert seen.error is not None
        assert seen.error.error_type in set(ToolErrorType)
        assert env.call_tool("whisper", text="go on") == "go on"


def test_rewards_are_in_the_results_of_steps_and_nothing_is_called_after_the_end(shop: RunningServer) -> None:
    with MCPToolClient(base_url=shop.url).sync() as env:
        env.reset()
        env.call_tool("sell", name="hat")
        result = env.step(CallToolAction(tool_name="close_up"))
        assert (result.reward, result.done) == (1.0, True)
        assert (result.observation.reward, result.observation.done) == (1.0, True)
        with pytest.raises(ToolCallError, match="reset") as raised:
            env.call_tool("sell", name="hat")
        assert raised.value.data["code"] == "SESSION_ERROR"
        env.reset()
        assert env.call_tool("sell", name="hat") == {"sold": 1}


def test_a_reset_brings_its_task_s_tools_and_a_session_knows_only_its_own(shop: RunningServer) -> None:
    with MCPToolClient(base_url=shop.url).sync() as env:
        env.reset()
        assert not env.has_tool("give")
        env.reset(gift="a scarf")
        assert env.call_tool("give") == "a scarf"
        assert env.has_tool("give")
        other = env.new_session()
        assert not other.has_tool("give")
        env.reset()
        assert not env.has_tool("give")


def test_the_list_is_asked_for_once_unless_it_is_to_be_new(shop: RunningServer) -> None:
    with MCPToolClient(base_url=shop.url).sync() as env:
        env.reset()
        first = env.list_tools()
        first.clear()  # the caller's own
        assert env.list_tools() == env.list_tools(use_cache=False) != []


def test_an_environment_s_actions_are_tools(serve_on: Serve) -> None:
    server = serve_on(CounterEnvironment, Add, Total)
    with MCPToolClient(base_url=server.url).sync() as env:
        env.reset()
        assert [one.name for one in env.list_tools()] == ["add"]
        assert env.call_tool("add", amount=3)["total"] == 3
        result = env.step(Add(amount=4))
        assert isinstance(result.observation, GenericMCPObservation)
        assert (result.observation.model_extra, result.reward) == ({"total": 7}, 4.0)
        with pytest.raises(ToolCallError, match="kaboom"):
            env.call_tool("add", amount=0)


def test_production_serves_the_agent_and_not_the_trainer(serve_on: Serve) -> None:
    server = serve_on(ShopEnvironment, CallToolAction, CallToolObservation, mode="production")
    with MCPToolClient(base_url=server.url).sync() as env:
        assert env.call_tool("sell", name="hat") == {"sold": 1}
        for forbidden in (env.reset, env.state):
            with pytest.raises(ServerProductionModeError, match="production"):
                forbidden()
        assert env.call_tool("sell", name="hat") == {"sold": 2}


async def test_a_call_is_carried_out_once_wherever_its_connection_is_cut(serve: Serve) -> None:
    server = serve(ShopEnvironment, CallToolAction, CallToolObservation)
    with Proxy(server.port) as proxy:
        async with MCPToolClient(base_url=proxy.url) as env:
            await env.reset()
            for turn, count in enumerate(range(1, 400, 37), 1):
                proxy.cut_after(Way.TO_CLIENT if turn % 2 else Way.TO_SERVER, count)
                assert await env.call_tool("sell", name="hat") == {"sold": turn}
            assert proxy.cuts > 3


async def test_two_agents_share_nothing(shop: RunningServer) -> None:
    async def sell(count: int) -> Any:
        async with MCPToolClient(base_url=shop.url) as env:
            return [await env.call_tool("sell", name="hat", count=count) for _ in range(3)]

    sold = await asyncio.gather(*(sell(count) for count in range(1, 6)))
    assert sold == [[{"sold": count}, {"sold": 2 * count}, {"sold": 3 * count}] for count in range(1, 6)]


def test_hostile_values_arrive_unchanged(shop: RunningServer) -> None:
    texts = ['"; DROP', "'''\"\"\"", "日本\u2028語\x00", "{{7*7}}${HOME}`id`", "x" * 1_000_000]
    with MCPToolClient(base_url=shop.url).sync() as env:
        assert [env.call_tool("whisper", text=text) for text in texts] == texts


def test_a_full_server_says_so(serve_on: Serve) -> None:
    server = serve_on(ShopEnvironment, CallToolAction, CallToolObservation, max_concurrent_envs=1)
    late = MCPToolClient(base_url=server.url).sync()
    with MCPToolClient(base_url=server.url).sync() as env:
        env.call_tool("nothing")
        with pytest.raises(ServerCapacityError):
            late.call_tool("nothing")
        with pytest.raises(ServerCapacityError):
            late.list_tools()


def test_lists_by_a_step(shop: RunningServer) -> None:
    with MCPToolClient(base_url=shop.url).sync() as env:
        result = env.step(ListToolsAction())
        assert isinstance(result.observation, ListToolsObservation)
        assert result.observation.tools == env.list_tools()


@pytest.mark.parametrize("action", [{"type": "list_tools"}, "list_tools", None])
def test_what_is_no_action_is_not_sent(action: Any) -> None:
    env: Any = MCPToolClient(base_url="http://127.0.0.1:9")
    with pytest.raises(TypeError, match="such as CallToolAction"):
        env.step(action)


@pytest.mark.parametrize("client", [MCPClientBase, MCPToolClient])
def test_the_mode_is_production(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_CLIENT_MODE", "simulation")
    assert client("http://localhost").mode == client("http://localhost", mode="PRODUCTION").mode == "production"
    with pytest.raises(
        ConfigurationError, match=f"{client.__name__} only supports 'production' mode, got 'simulation'"
    ):
        client("http://localhost", mode="simulation")


def test_arguments_stand_in_the_public_order() -> None:
    env = MCPToolClient("http://localhost:1", 1.0, 2.0, 3.0, 4.0, None, None, 5.0, {"X-Mine": "6"})
    settings = asyncio.run(env._endpoint())
    assert (settings.connect_timeout_s, env.message_timeout_s) == (1.0, 2.0)
    assert (settings.ping_interval_s, settings.ping_timeout_s) == (3.0, 4.0)
    assert settings.max_message_bytes == 5 * 1024 * 1024
    assert ("X-Mine", "6") in settings.headers


def test_nobody_there() -> None:
    with pytest.raises(ConnectionFailedError):
        MCPToolClient("http://127.0.0.1:9").sync().list_tools()


class Parrot:
    """Plays a server: it answers every request with one and the same thing."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def __call__(self, connection: ServerConnection) -> None:
        for _ in connection:
            connection.send(self.answer)


def rpc(body: str) -> str:
    return f'{{"type": "mcp", "data": {{"jsonrpc": "2.0", "id": 1, {body}}}}}'


@pytest.mark.parametrize(
    "answer",
    [
        rpc('"result": []'),
        rpc('"result": {"tools": {}}'),
        rpc('"result": {"tools": [7]}'),
        rpc('"result": {"tools": [{"description": "no name", "inputSchema": {}}]}'),
        rpc('"result": {"tools": [{"name": "no_schema"}]}'),
        rpc('"result": {}, "further": 1'),
        '{"type": "mcp", "data": []}',
        '{"type": "observation", "data": {}}',
        "no json",
    ],
)
def test_what_is_no_list_of_tools_is_not_taken_for_one(answer: str) -> None:
    with answering(Parrot(answer)) as url, MCPToolClient(url).sync() as env, pytest.raises(InvalidAnswerError):
        env.list_tools()


def test_a_server_without_tools_has_none(caplog: pytest.LogCaptureFixture) -> None:
    refusal = rpc('"error": {"code": -32603, "message": "Environment does not support MCP", "data": null}')
    with answering(Parrot(refusal)) as url, MCPToolClient(url).sync() as env:
        assert env.list_tools() == []
        assert "Environment does not support MCP" in caplog.text
        with pytest.raises(ToolCallError) as raised:
            env.call_tool("sell")
        assert (raised.value.code, raised.value.data) == (-32603, None)


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ('{"content": [], "structured_content": {"result": 5}, "data": 5}', 5),
        ('{"content": [], "structured_content": null, "data": null}', None),
        ('{"content": [{"type": "text", "text": "null"}], "structured_content": null, "data": null}', None),
        ('{"content": [{"type": "text", "text": "hi"}], "structured_content": null, "data": null}', "hi"),
        ('{"content": [{"type": "image"}], "data": null}', {"content": [{"type": "image"}], "data": None}),
        ('{"content": 7, "data": null}', None),
        ('{"total": 1}', {"total": 1}),
        ("[1, 2]", [1, 2]),
        ("null", None),
    ],
)
def test_what_a_call_gave(result: str, value: Any) -> None:
    with answering(Parrot(rpc(f'"result": {result}'))) as url, MCPToolClient(url).sync() as env:
        assert env.call_tool("sell") == value


def test_an_observation_of_a_tool_may_have_further_fields() -> None:
    observation = '{"observation": {"tool_name": "ask", "result": 1, "prompt": "?"}, "reward": 0.5, "done": true}'
    with (
        answering(Parrot(f'{{"type": "observation", "data": {observation}}}')) as url,
        MCPToolClient(url).sync() as env,
    ):
        seen = env.reset().observation
    assert isinstance(seen, CallToolObservation)
    assert (seen.tool_name, seen.result, seen.reward, seen.done) == ("ask", 1, 0.5, True)
    assert seen.model_extra == {"prompt": "?"}
