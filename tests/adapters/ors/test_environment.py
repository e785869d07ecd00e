"""An environment of an ORS server as one of ours: alone, served, and driven by our clients."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.servers import RunningServer, ServerProcess

from openenv import GenericEnvClient
from openenv.adapters.ors import OrsEnvironment, environment_for
from openenv.adapters.targets import find_adapted
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    ToolErrorType,
)
from openenv.core.exceptions import (
    ConfigurationError,
    EnvironmentFailedError,
    EpisodeOrderError,
    RequestRejectedError,
    ResetNeededError,
    TaskNotFoundError,
)

PICTURE = "data:image/png;base64,aGVsbG8="


@asynccontextmanager
async def playing(server: ServerProcess, **settings: Any) -> AsyncIterator[OrsEnvironment]:
    env = OrsEnvironment(server.url, **settings)
    try:
        yield env
    finally:
        await env.close()


async def called(env: OrsEnvironment, name: str, **arguments: Any) -> CallToolObservation:
    observation = await env.step(CallToolAction(tool_name=name, arguments=arguments))
    assert isinstance(observation, CallToolObservation)
    return observation


async def tools_of(env: OrsEnvironment) -> dict[str, Any]:
    observation = await env.step(ListToolsAction())
    assert isinstance(observation, ListToolsObservation)
    return {tool.name: tool.input_schema for tool in observation.tools}


class TestEpisodes:
    async def test_from_beginning_to_end(self, sdk_server: ServerProcess) -> None:
        async with playing(sdk_server) as env:
            begun = await env.reset(index=1, episode_id="e")
            assert (begun.prompt, begun.done, begun.reward, begun.images) == ("Tell me world.", False, None, [])
            wrong = await called(env, "tell", word="no")
            assert (wrong.result, wrong.reward, wrong.done, wrong.metadata) == ("wrong", 0.0, False, {"times": 1})
            right = await called(env, "tell", word="world")
            assert (right.result, right.reward, right.done) == ("right", 1.0, True)
            assert (env.state.episode_id, env.state.step_count) == ("e", 2)
            with pytest.raises(ResetNeededError, match="the episode has finished"):
                await called(env, "tell", word="world")
            assert (await env.reset(index=0)).prompt == "Tell me hello."

    async def test_seeds_choose_tasks(self, sdk_server: ServerProcess) -> None:
        async with playing(sdk_server) as env:
            prompts = [(await env.reset(seed=seed)).prompt for seed in range(4)]
            assert prompts == ["Tell me hello.", "Tell me world."] * 2
            assert (await env.reset()).prompt in prompts
            assert (await env.reset(split="test", seed=5)).prompt == "Tell me other."
            assert (await env.reset(task_spec={"word": "mine"})).prompt == "Tell me mine."

    async def test_pictures(self, sdk_server: ServerProcess) -> None:
        async with playing(sdk_server, environment="odd") as env:
            begun = await env.reset(index=0)
            assert (begun.prompt, begun.images) == ("See\nthis.", [PICTURE])
            content = (await called(env, "paint")).result["content"]
            assert content == [
                {"type": "text", "text": "look"},
                {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
            ]

    async def test_the_tool_for_the_last_word_is_one_like_any_other(self, sdk_server: ServerProcess) -> None:
        async with playing(sdk_server, environment="odd") as env:
            before = await tools_of(env)
            await env.reset(index=0)
            tools = await tools_of(env)
            assert tools == before
            assert tools.keys() == {"tell", "fall", "paint", "answer"}
            assert tools["answer"]["required"] == ["word"]
            assert tools["fall"] == {"type": "object", "properties": {}}
            assert (await called(env, "answer", word="bye")).done

    async def test_sessions_end_with_the_environment(self, sdk_server: ServerProcess) -> None:
        async with playing(sdk_server) as env:
            await env.reset(index=0)
        with pytest.raises(ResetNeededError, match="Expected a reset before the first call"):
            await called(env, "tell", word="hello")

    async def test_pings_are_sent(self, sdk_server: ServerProcess) -> None:
        async with playing(sdk_server) as env:
            await env.reset(index=0)
            await asyncio.to_thread(sdk_server.wait_for_lines, ["ping"])


class TestTasks:
    async def test_they_are_the_servers(self, sdk_server: ServerProcess) -> None:
        async with playing(sdk_server) as env:
            assert await env.list_splits() == ["train", "test"]
            assert await env.list_tasks("train") == [{"word": "hello"}, {"word": "world"}]
            assert await env.num_tasks("test") == 1
            assert await env.get_task("train", 1) == {"word": "world"}
            assert await env.get_task_range("train", start=1) == [{"word": "world"}]

    async def test_there_is_no_such_task(self, sdk_server: ServerProcess) -> None:
        async with playing(sdk_server) as env:
            with pytest.raises(TaskNotFoundError, match="Invalid index"):
                await env.get_task("train", 9)
            with pytest.raises(TaskNotFoundError, match="Invalid index"):
                await env.reset(index=9)
            with pytest.raises(TaskNotFoundError, match="Invalid split"):
                await env.list_tasks("nope")
            with pytest.raises(TaskNotFoundError, match="Invalid split"):
                await env.reset(split="nope", seed=1)


class TestFailures:
    async def test_calls_that_are_refused_are_told(self, sdk_server: ServerProcess) -> None:
        async with playing(sdk_server) as env:
            await env.reset(index=0)
            unknown, wrong = await called(env, "shout"), await called(env, "tell", words="x")
            assert unknown.error is not None
            assert unknown.error.error_type is ToolErrorType.TOOL_NOT_FOUND
            assert wrong.error is not None
            assert wrong.error.error_type is ToolErrorType.INVALID_ARGS
            assert (await called(env, "tell", word="hello")).done

    async def test_a_tool_that_fails_ends_the_session(self, sdk_server: ServerProcess) -> None:
        async with playing(sdk_server, environment="odd") as env:
            await env.reset(index=0)
            with pytest.raises(EnvironmentFailedError, match="only a reset helps: fallen"):
                await called(env, "fall")
            with pytest.raises(ResetNeededError):
                await called(env, "paint")
            await env.reset(index=0)
            assert (await called(env, "answer", word="x")).done

    async def test_a_name_that_no_tool_may_have(self, sdk_server: ServerProcess) -> None:
        async with playing(sdk_server, environment="reserved") as env:
            with pytest.raises(EnvironmentFailedError, match="has a tool named 'reset'"):
                await tools_of(env)

    async def test_another_environment_than_there_is(self, sdk_server: ServerProcess) -> None:
        async with playing(sdk_server, environment="nope") as env:
            with pytest.raises(EnvironmentFailedError, match="answers with status 404: "):
                await env.list_splits()

    async def test_a_key_is_asked_for(self, sdk_server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
        async with playing(sdk_server, environment="keyed") as env:
            with pytest.raises(EnvironmentFailedError, match="set OPENREWARD_API_KEY, or pass api_key="):
                await env.list_splits()
        async with playing(sdk_server, environment="keyed", api_key="secret") as env:
            assert await env.list_splits() == ["train", "test"]
        monkeypatch.setenv("OPENREWARD_API_KEY", "secret")
        async with playing(sdk_server, environment="keyed") as env:
            assert (await env.reset(index=0)).prompt == "Tell me hello."

    async def test_nobody_is_there(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        env = OrsEnvironment(f"http://127.0.0.1:{port}")
        with pytest.raises(EnvironmentFailedError, match=f"The ORS server http://127.0.0.1:{port} failed"):
            await env.reset(index=0)
        await env.close()


@pytest.fixture(scope="module")
def ours(sdk_server: ServerProcess) -> Iterator[RunningServer]:
    """A server of ours, of what the SDK's server holds."""
    with RunningServer(find_adapted(f"ors:{sdk_server.url}").app()) as server:
        yield server


class TestServed:
    def test_our_client_plays_it(self, ours: RunningServer) -> None:
        with GenericEnvClient(ours.url).sync() as env:
            assert env.reset(seed=1).observation["prompt"] == "Tell me world."
            assert [tool["name"] for tool in env.step({"type": "list_tools"}).observation["tools"]] == ["tell"]
            wrong = env.step({"type": "call_tool", "tool_name": "tell", "arguments": {"word": "no"}})
            assert (wrong.observation["result"], wrong.reward, wrong.done) == ("wrong", 0.0, False)
            right = env.step({"type": "call_tool", "tool_name": "tell", "arguments": {"word": "world"}})
            assert (right.observation["result"], right.reward, right.done) == ("right", 1.0, True)
            with pytest.raises(EpisodeOrderError):
                env.step({"type": "call_tool", "tool_name": "tell", "arguments": {"word": "world"}})
            with pytest.raises(RequestRejectedError, match="Invalid index"):
                env.reset(index=9)
            assert env.reset(index=0).observation["prompt"] == "Tell me hello."

    def test_two_of_our_sessions_are_two_of_theirs(self, ours: RunningServer) -> None:
        with GenericEnvClient(ours.url).sync() as first, GenericEnvClient(ours.url).sync() as second:
            first.reset(index=0)
            second.reset(index=1)
            tell = {"type": "call_tool", "tool_name": "tell", "arguments": {"word": "hello"}}
            assert (first.step(tell).reward, second.step(tell).reward) == (1.0, 0.0)

    def test_its_tasks_are_found(self, ours: RunningServer, sdk_server: ServerProcess) -> None:
        with ours.http() as client:
            name = client.get("/list_environments").json()[0]
            assert name == f"ors:127.0.0.1:{sdk_server.port}"
            assert client.post(f"/{name}/num_tasks", json={"split": "train"}).json() == {"num_tasks": 2}
            assert client.post(f"/{name}/task", json={"split": "train", "index": 7}).status_code == 400

    def test_a_process_of_its_own(self, sdk_server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENENV_ISOLATION", "process")
        app = find_adapted(f"ors:{sdk_server.url}?split=test").app()
        with RunningServer(app) as server, GenericEnvClient(server.url, connect_timeout_s=60).sync() as env:
            assert env.reset(seed=0).observation["prompt"] == "Tell me other."


class TestTargets:
    def test_what_stands_behind_the_address(self) -> None:
        made = environment_for("https://example.com?split=test&environment=second")
        assert (made.args, made.keywords) == (("https://example.com",), {"split": "test", "environment": "second"})

    def test_a_name_of_the_catalog(self) -> None:
        assert environment_for("Eigent/SETA").args == ("Eigent/SETA",)

    @pytest.mark.parametrize("target", ["", "http://", "ftp://host", "a/b/c", "two words", "http:///path"])
    def test_no_target(self, target: str) -> None:
        with pytest.raises(ConfigurationError, match="Expected an ORS server's address, as in"):
            environment_for(target)

    def test_a_password_is_no_part_of_an_address_that_clients_are_told(self) -> None:
        for make in (OrsEnvironment, environment_for):
            with pytest.raises(ConfigurationError, match="put the key into OPENREWARD_API_KEY") as refused:
                make("http://user:hunter2@localhost:8080")
            assert "hunter2" not in str(refused.value)

    def test_anything_else_behind_it(self) -> None:
        with pytest.raises(ConfigurationError, match=r"Expected split or environment behind ors:x\?, got splt"):
            environment_for("x?splt=test")
