"""MCP servers as environments: hand-written ones that misbehave, and those of the two Python packages."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.conftest import Serve
from tests.support.mcp_servers import call, command, environment, pid_of, text_of
from tests.support.ors_wire import OrsWire
from tests.support.processes import wait_until_gone
from tests.support.servers import RunningServer

from openenv.adapters.mcp_server import McpServerEnvironment, McpServerObservation, ToolCall
from openenv.adapters.mcp_server.environment import split_command
from openenv.core import MCPToolClient
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    ToolErrorType,
)
from openenv.core.environment_types import environment_types
from openenv.core.exceptions import (
    ConfigurationError,
    EnvironmentFailedError,
    EnvironmentProcessEndedError,
    ResetNeededError,
    ServerExecutionError,
    TaskNotFoundError,
    ToolCallError,
)

TASKS = [{"prompt": "Say four.", "answer": "4"}, {"prompt": "Say five.", "answer": "5"}, {"answer": "6"}]


def reward(task: Mapping[str, Any] | None, calls: Sequence[ToolCall], final: str) -> float:
    """One for the right answer, less a tenth for each call."""
    assert task is not None
    return float(final == task["answer"]) - len(calls) / 10


async def names(env: McpServerEnvironment) -> list[str]:
    listed = await env.step(ListToolsAction())
    assert isinstance(listed, ListToolsObservation)
    return [one.name for one in listed.tools]


async def test_its_tools_are_the_server_s() -> None:
    async with environment() as env:
        assert (await names(env))[:3] == ["write", "echo", "pid"]
        observation = await env.reset()
        assert observation == McpServerObservation()
        assert (await call(env, "echo", text="hi")).result == {
            "content": [{"type": "text", "text": "hi", "annotations": None, "meta": None}],
            "structured_content": None,
            "meta": None,
            "data": None,
            "is_error": False,
        }
        assert (await call(env, "structured")).result["data"] == {"celsius": 21}
        assert (await call(env, "wrapped")).result["data"] == 5
        assert (await call(env, "picture")).result["content"][0]["mimeType"] == "image/png"
        assert env.state.step_count == 4


async def test_what_fails_is_the_agent_s_to_know_and_the_episode_goes_on() -> None:
    async with environment(call_timeout_s=0.3) as env:
        await env.reset()
        seen = {name: (await call(env, name)).error for name in ("fail", "echo", "refuse", "steal", "reset", "hang")}
    kinds = {name: error and (error.error_type, error.message) for name, error in seen.items()}
    assert kinds["fail"] == (ToolErrorType.EXECUTION_ERROR, "it's slippery")
    assert kinds["refuse"] == (ToolErrorType.INVALID_ARGS, "these arguments are wrong")
    assert kinds["steal"] == (ToolErrorType.TOOL_NOT_FOUND, "Unknown tool: 'steal'")
    assert kinds["reset"] == (ToolErrorType.TOOL_NOT_FOUND, "Unknown tool: 'reset'")
    assert seen["echo"] is not None
    assert seen["hang"] is not None
    assert seen["hang"].error_type is ToolErrorType.TIMEOUT


async def test_the_caller_may_grant_less_time_but_not_more() -> None:
    async with environment(call_timeout_s=0.4) as env:
        await env.reset()
        for granted, told in ((0.1, "0.1 s"), (60.0, "0.4 s")):
            observation = await env.step(CallToolAction(tool_name="hang"), timeout_s=granted)
            assert isinstance(observation, McpServerObservation)
            assert observation.error is not None
            assert told in observation.error.message


async def test_each_episode_has_a_process_of_its_own() -> None:
    async with environment() as env:
        await names(env)
        await env.reset()
        first = await pid_of(env)
        await call(env, "write", text="a note")
        await env.reset(episode_id="second")
        wait_until_gone(first)
        assert (env.state.episode_id, env.state.step_count) == ("second", 0)
        assert await text_of(env, "write", text="a note") == '{"count": 1}'
        second = await pid_of(env)
    wait_until_gone(second)


async def test_one_that_was_not_used_is_kept() -> None:
    async with environment() as env:
        await names(env)
        process = env._process
        await env.reset()
        await env.reset()
        assert env._process is process


@pytest.mark.parametrize("way", ["die", "deafen"])
async def test_one_that_ends_costs_its_episode_and_no_more(way: str) -> None:
    async with environment() as env:
        await env.reset()
        before = await names(env)
        first = await pid_of(env)
        with pytest.raises(EnvironmentProcessEndedError) as raised:
            await call(env, way)
        assert raised.value.may_have_happened
        await asyncio.to_thread(wait_until_gone, first)
        with pytest.raises(EnvironmentProcessEndedError) as raised:
            await call(env, "echo", text="x")
        assert not raised.value.may_have_happened
        assert await names(env) == before
        await env.reset()
        assert await text_of(env, "echo", text="x") == "x"


async def test_one_that_was_killed_before_anybody_called_it_is_started_anew() -> None:
    async with environment() as env:
        before = set(psutil.Process().children())
        await env.reset()
        [server] = set(psutil.Process().children()) - before
        server.kill()
        await env.reset()
        assert await text_of(env, "echo", text="x") == "x"


async def test_a_server_that_can_t_be_started_fails_the_reset_and_not_the_next_one(tmp_path: Path) -> None:
    program = tmp_path / "server"
    env = McpServerEnvironment([str(program)])
    with pytest.raises(EnvironmentFailedError, match="could not be started"):
        await env.reset()
    program.write_text("#!/bin/sh\nexec " + " ".join(command()))
    program.chmod(0o755)
    await env.reset()
    assert await text_of(env, "echo", text="x") == "x"
    await env.close()


async def test_names_that_no_agent_can_have_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async with environment("odd_names") as env:
        assert await names(env) == ["echo"]
        await env.reset()
        for name in ("reset", "no spaces", ""):
            assert (await call(env, name)).error is not None
    assert "'reset' is left out" in caplog.text


async def test_values_travel_as_they_are() -> None:
    texts = ['"; DROP TABLE', "'''\"\"\"", "日本\u2028語\x00\n", "${HOME}`id`$(id)", "x" * 1_000_000]
    async with environment() as env:
        await env.reset()
        assert [await text_of(env, "echo", text=text) for text in texts] == texts


async def test_tasks_are_chosen_by_index_or_seed() -> None:
    async with environment(tasks=TASKS) as env:
        assert [(await env.reset(index=index)).prompt for index in range(3)] == ["Say four.", "Say five.", ""]
        assert [(await env.reset(seed=seed)).prompt for seed in (3, 4)] == ["Say four.", "Say five."]
        assert {(await env.reset(split="train")).prompt for _ in range(40)} == {"Say four.", "Say five.", ""}
        for wrong in ({"index": 3}, {"index": -1}, {"index": "0"}, {"split": "test"}):
            with pytest.raises(TaskNotFoundError):
                await env.reset(**wrong)
        assert (env.list_splits(), env.num_tasks("train")) == (["train"], 3)


async def test_without_tasks_there_is_none() -> None:
    async with environment() as env:
        with pytest.raises(NotImplementedError):
            env.list_splits()
        with pytest.raises(TaskNotFoundError):
            await env.reset(index=0)


async def test_the_answer_ends_the_episode_with_its_reward() -> None:
    async with environment(tasks=TASKS, reward=reward) as env:
        assert "submit" in await names(env)
        await env.reset(index=1)
        await call(env, "echo", text="5?")
        for wrong in ({}, {"answer": 5}, {"answer": "5", "loud": True}):
            refused = await call(env, "submit", **wrong)
            assert refused.error is not None
            assert refused.error.error_type is ToolErrorType.INVALID_ARGS
        last = await call(env, "submit", answer="5")
        assert (last.reward, last.done) == (0.9, True)
        with pytest.raises(ResetNeededError, match="has ended"):
            await call(env, "echo", text="x")
        await env.reset(index=0)
        assert (await call(env, "submit", answer="5")).reward == 0.0


async def test_the_function_sees_the_task_and_each_call() -> None:
    seen: list[Any] = []

    async def note(task: Mapping[str, Any] | None, calls: Sequence[ToolCall], final: str) -> float:
        task["answer"] = "spoilt"  # type: ignore[index]  # its own copy
        seen.extend([dict(task or {}), list(calls), final])
        return 1

    async with environment(tasks=TASKS, reward=note) as env:
        await env.reset(index=0)
        for name, arguments in (("echo", {"text": "hi"}), ("structured", {}), ("fail", {}), ("steal", {"x": 1})):
            await call(env, name, **arguments)
        assert (await call(env, "submit", answer="4")).reward == 1.0
        assert TASKS[0] == {"prompt": "Say four.", "answer": "4"}
    task, calls, final = seen
    assert (task["prompt"], final) == ("Say four.", "4")
    assert calls == [
        ToolCall("echo", {"text": "hi"}, "hi"),
        ToolCall("structured", {}, {"celsius": 21}),
        ToolCall("fail", {}, None, "it's slippery"),
        ToolCall("steal", {"x": 1}, None, "Unknown tool: 'steal'"),
    ]


async def test_a_function_that_fails_lets_the_agent_answer_again() -> None:
    answers = iter([ValueError("no idea"), float("nan"), "much", None, 0.5])

    def moody(_task: Any, _calls: Any, _final: str) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with environment(reward=moody) as env:
        await env.reset()
        with pytest.raises(ValueError, match="no idea"):
            await call(env, "submit", answer="a")
        for _ in range(3):
            with pytest.raises(EnvironmentFailedError, match="expected a finite number"):
                await call(env, "submit", answer="a")
        assert (await call(env, "submit", answer="a")).reward == 0.5


async def test_a_tool_of_that_name_stays_the_server_s() -> None:
    async with environment("taken_names", reward=lambda _task, _calls, _final: 1.0) as env:
        assert await names(env) == ["echo", "submit", "submit_answer"]
        await env.reset()
        assert (await call(env, "submit_answer", answer="x")).done


async def test_without_a_function_nothing_ends_an_episode() -> None:
    async with environment(tasks=TASKS) as env:
        assert "submit" not in await names(env)


async def test_calls_before_a_reset_are_refused() -> None:
    async with environment() as env:
        with pytest.raises(ResetNeededError):
            await call(env, "echo", text="x")


@pytest.mark.parametrize("wrong", ["", "   ", [], "python 'unclosed"])
def test_a_command_that_is_none(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        McpServerEnvironment(wrong)


def test_no_shell_reads_a_command() -> None:
    assert split_command("a 'b c' \"d\" $HOME;e") == ("a", "b c", "d", "$HOME;e")


# --- Served ----------------------------------------------------------------------------------------------------------


def served(serve: Serve, factory: Any, **settings: Any) -> RunningServer:
    types = environment_types(McpServerEnvironment)
    return serve(factory, types.action, types.observation, **settings)


def test_agents_and_trainers_play_it(serve: Serve) -> None:
    server = served(serve, partial(McpServerEnvironment, command(), tasks=TASKS, reward=reward))
    with MCPToolClient(base_url=server.url).sync() as env, server.http() as http:
        first = env.reset(split="train", index=0)
        assert first.observation.prompt == "Say four."
        assert env.call_tool("echo", text="hi") == "hi"
        assert env.call_tool("wrapped") == 5
        result = env.step(CallToolAction(tool_name="submit", arguments={"answer": "4"}))
        assert (result.reward, result.done) == (0.8, True)
        [name] = http.get("/list_environments").json()
        assert http.post(f"/{name}/num_tasks", json={"split": "train"}).json() == {"num_tasks": 3}
        # Nothing else of a task, which may hold the solution: whoever asks may be the agent.
        listed = http.post(f"/{name}/tasks", json={"split": "train"}).json()["tasks"]
        assert listed == [{"split": "train", "index": index} for index in range(3)]


def test_without_tasks_clients_of_ors_play_it_too(serve: Serve) -> None:
    server = served(serve, partial(McpServerEnvironment, command(), reward=reward))
    with OrsWire(server) as wire:
        assert wire.get("/splits").json() == [{"name": "train", "type": "train"}]
        assert wire.create(split="train", index=3).status_code == 200
        assert wire.get("/prompt").status_code == 200
        assert wire.call("echo", text="hi")["output"]["blocks"][0]["text"] == "hi"
    with OrsWire(server) as wire:
        assert wire.create(task_spec={}).status_code == 200
        assert wire.get("/prompt").status_code == 200


def test_one_session_s_server_may_die_and_the_others_play_on(serve: Serve) -> None:
    server = served(serve, partial(McpServerEnvironment, command()))
    with MCPToolClient(base_url=server.url).sync() as one, MCPToolClient(base_url=server.url).sync() as other:
        one.reset()
        other.reset()
        other.call_tool("write", text="a")
        with pytest.raises(ServerExecutionError, match=r"process has ended; the step may have happened\. A reset"):
            one.step(CallToolAction(tool_name="die"))
        with pytest.raises(ToolCallError, match="the step was not executed"):
            one.call_tool("echo", text="x")
        assert other.call_tool("write", text="b") == '{"count": 2}'
        one.reset()
        assert one.call_tool("write", text="a") == '{"count": 1}'
    server.wait_for_sessions(0)


def test_it_runs_in_processes_of_its_own(serve: Serve) -> None:
    server = served(serve, partial(McpServerEnvironment, command(), tasks=TASKS), isolation="process")
    with MCPToolClient(base_url=server.url).sync() as env:
        assert env.reset(index=1).observation.prompt == "Say five."
        pid = int(env.call_tool("pid"))
        with pytest.raises(ServerExecutionError):
            env.step(CallToolAction(tool_name="die"))
        wait_until_gone(pid)
        env.reset()
        pid = int(env.call_tool("pid"))
    wait_until_gone(pid)


async def test_progress_is_passed_on() -> None:
    heard: list[tuple[float, str]] = []
    async with environment() as env:
        env._progress_listener = lambda fraction, message: heard.append((fraction, message))
        await env.reset()
        assert await text_of(env, "work") == "worked"
    assert heard == [(0.25, ""), (0.5, ""), (1.0, "")]


# --- Servers of the two packages in Python ---------------------------------------------------------------------------

PACKAGED = """
from {package} import FastMCP

server, notes = FastMCP("notes"), []

@server.tool()
def write(text: str, times: int = 1) -> int:
    "Write a note."
    notes.extend([text] * times)
    return len(notes)

@server.tool()
def read() -> dict[str, list[str]]:
    "Read them."
    return {{"notes": notes}}

@server.tool()
def fall() -> str:
    raise ValueError("it's slippery")

server.run({quietly})
"""


@pytest.mark.parametrize(("package", "quietly"), [("mcp.server.fastmcp", ""), ("fastmcp", "show_banner=False")])
def test_servers_written_with_the_packages(package: str, quietly: str, tmp_path: Path) -> None:
    program = tmp_path / "notes.py"
    program.write_text(PACKAGED.format(package=package, quietly=quietly))

    async def play() -> list[Any]:
        env = McpServerEnvironment([sys.executable, str(program)])
        await env.reset()
        seen = [(await call(env, "write", text="a", times=2)).result["data"]]
        seen.append((await call(env, "read")).result["data"])
        seen += [(await call(env, "fall")).error, (await call(env, "write", text=[])).error]
        await env.close()
        return seen

    count, notes, fell, wrong = asyncio.run(play())
    assert (count, notes) == (2, {"notes": ["a", "a"]})
    assert "it's slippery" in fell.message
    assert "text" in wrong.message


def test_observations_are_those_of_tools() -> None:
    assert issubclass(McpServerObservation, CallToolObservation)
