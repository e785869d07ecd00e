"""The MCP servers that the tests play, and how."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from openenv.adapters.mcp_server import McpServerEnvironment, McpServerObservation
from openenv.core.env_server.mcp_types import CallToolAction

PROGRAM = Path(__file__).parent / "programs" / "mcp_server.py"


def command(manner: str = "good") -> list[str]:
    return [sys.executable, "-S", str(PROGRAM), "--manner", manner]


@asynccontextmanager
async def environment(manner: str = "good", **settings: Any) -> AsyncIterator[McpServerEnvironment]:
    made = McpServerEnvironment(command(manner), **settings)
    try:
        yield made
    finally:
        await made.close()


async def call(env: McpServerEnvironment, name: str, /, **arguments: Any) -> McpServerObservation:
    observation = await env.step(CallToolAction(tool_name=name, arguments=arguments))
    assert isinstance(observation, McpServerObservation)
    return observation


async def text_of(env: McpServerEnvironment, name: str, /, **arguments: Any) -> str:
    """Call a tool that gives a text."""
    observation = await call(env, name, **arguments)
    assert observation.error is None, observation.error
    text: str = observation.result["content"][0]["text"]
    return text


async def pid_of(env: McpServerEnvironment) -> int:
    return int(await text_of(env, "pid"))
