"""Drive the notes' server with the tool client of whichever package the interpreter has; see ``play.py``."""

import argparse
import asyncio
import json
from typing import Any

from tests.interop.programs.play import error_of, outcome

from openenv.core import MCPToolClient
from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction


def call_async(url: str) -> Any:
    """One episode with the async client."""
    return asyncio.run(_call_async(url))


async def _call_async(url: str) -> list[Any]:
    async with MCPToolClient(base_url=url) as env:
        start = await env.reset(episode_id="first")
        names = [tool.name for tool in await env.list_tools()]
        seen: list[Any] = [start.observation.metadata, names]
        seen.append(await env.call_tool("write", text="a", times=2))
        seen.append(await env.call_tool("read"))
        state = await env.state()
        return [*seen, state.episode_id, state.step_count]


def call_sync(url: str) -> Any:
    """The same with the ``.sync()`` facade."""
    with MCPToolClient(base_url=url).sync() as env:
        start = env.reset(episode_id="first")
        seen: list[Any] = [start.observation.metadata, [tool.name for tool in env.list_tools()]]
        seen.append(env.call_tool("write", text="a", times=2))
        seen.append(env.call_tool("read"))
        return [*seen, env.state().episode_id, env.state().step_count]


def step_tools(url: str) -> Any:
    """List and call tools by steps."""
    with MCPToolClient(base_url=url).sync() as env:
        env.reset()
        listed = env.step(ListToolsAction()).observation
        result = env.step(CallToolAction(tool_name="write", arguments={"text": "a"}))
        failed = env.step(CallToolAction(tool_name="steal", arguments={})).observation
        seen = result.observation
        return [
            [tool.name for tool in listed.tools],
            [type(seen).__name__, seen.tool_name, seen.result["data"], result.reward, result.done],
            [type(failed).__name__, failed.result, failed.error.error_type.value],
        ]


def fail(url: str) -> Any:
    """Calls that fail, and one that works after them."""
    with MCPToolClient(base_url=url).sync() as env:
        env.reset()
        errors = [error_of(lambda: env.call_tool("fall")), error_of(lambda: env.call_tool("steal"))]
        return [*errors, env.has_tool("write"), env.has_tool("steal"), env.call_tool("write", text="a")]


def look_up(url: str) -> Any:
    """What is told of a tool."""
    with MCPToolClient(base_url=url).sync() as env:
        tool = env.get_tool("write")
        return [tool.description, sorted(tool.input_schema["properties"]), tool.input_schema["required"]]


def untyped(url: str) -> Any:
    """What a tool gives that does not say what it gives."""
    with MCPToolClient(base_url=url).sync() as env:
        env.reset()
        return env.call_tool("untyped", text="psst")


def keep_apart(url: str) -> Any:
    """Two agents."""
    with MCPToolClient(base_url=url).sync() as one, MCPToolClient(base_url=url).sync() as other:
        one.reset()
        other.reset()
        one.call_tool("write", text="a", times=3)
        return [one.call_tool("write", text="a"), other.call_tool("write", text="a")]


SCENARIOS = (call_async, call_sync, step_tools, fail, look_up, untyped, keep_apart)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    url = parser.parse_args().url
    print(json.dumps({scenario.__name__: outcome(scenario, url) for scenario in SCENARIOS}))  # noqa: T201
