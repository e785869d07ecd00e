"""MCP's own inspector, from npm, finds and calls the tools of our environments, over HTTP and stdio."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from tests.support.environment_folders import write_files
from tests.support.forked import ForkedProgram
from tests.support.services.npm_packages import NpmProgram

INSPECTOR = NpmProgram("@modelcontextprotocol/inspector", "2.12.0", "mcp-inspector")
TRANSPORTS = ("http", "stdio")
SEED = 3
HOSTILE = "\"\"\" ''' `${HOME}` $(touch here) \\ \N{LARGE GREEN SQUARE}\r\n\t{{x}} </script> -- --method"
FAILED = 5
"""How the inspector ends after a tool's failure."""

NOTES = {
    "openenv.yaml": "spec_version: 1\nname: notes_env\nruntime: fastapi\napp: server.app:app\nport: 8000\n",
    "__init__.py": "",
    "server/__init__.py": "",
    "server/app.py": """
        from openenv import Environment, Observation, ToolResult, create_app, tool
        from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

        class NotesEnvironment(Environment):
            SUPPORTS_CONCURRENT_SESSIONS = True

            def reset(self, seed: int | None = None) -> Observation:
                self._notes = {"seed": str(seed)}
                return Observation()

            @tool
            def write(self, path: str, text: str) -> str:
                '''Write a note.

                Args:
                    path: Where.
                    text: What.
                '''
                self._notes[path] = text
                return f"{len(text)} characters"

            @tool
            def read(self, path: str) -> str:
                '''Read a note.

                Args:
                    path: Where.
                '''
                return self._notes[path]

            @tool(terminal=True)
            def submit(self, path: str) -> ToolResult:
                '''Hand a note in.

                Args:
                    path: Which.
                '''
                return ToolResult({"note": self._notes[path]}, reward=1.0)

        app = create_app(NotesEnvironment, CallToolAction, CallToolObservation, env_name="notes", max_concurrent_envs=4)
        """,
}


@dataclass(frozen=True)
class Expected:
    """What the inspector finds in an environment.

    Attributes:
        served: What ``openenv serve`` and ``openenv mcp`` are told.
        tools: The parameters of each tool.
        tool: The tool that is called in the episode of seed 3.
        arguments: What it is called with.
        shown: What the call's structured result has, among others.
        reward: The call's reward.
        done: Whether the episode has ended then.
    """

    served: str
    tools: dict[str, list[str]]
    tool: str
    arguments: dict[str, Any]
    shown: dict[str, Any]
    reward: float
    done: bool = False


def cart_pole_observation() -> list[float]:
    """Push the cart to the right, without any server."""
    cart_pole = gymnasium.make("CartPole-v1")
    cart_pole.reset(seed=SEED)
    observation: list[float] = cart_pole.step(1)[0].tolist()
    cart_pole.close()
    return observation


ENVIRONMENTS = [
    Expected(
        "echo",
        tools={"echo_message": ["message"], "echo_with_length": ["message"], "echo": ["message"]},
        tool="echo",
        arguments={"message": HOSTILE},
        shown={"echoed_message": HOSTILE, "message_length": len(HOSTILE)},
        reward=len(HOSTILE) / 10,
    ),
    Expected(
        "wordle",
        tools={"wordle": ["word"]},
        tool="wordle",
        arguments={"word": "crane"},
        shown={"guesses": ["CRANE"], "guesses_left": 5, "target_word": None},
        reward=0.0,
    ),
    Expected(
        "catch",
        tools={"catch": ["move"]},
        tool="catch",
        arguments={"move": "left"},
        shown={"paddle": 1, "row": 1},
        reward=0.0,
    ),
    Expected(
        "notes_env",
        tools={"write": ["path", "text"], "read": ["path"], "submit": ["path"]},
        tool="submit",
        arguments={"path": "seed"},
        shown={"note": str(SEED)},
        reward=1.0,
        done=True,
    ),
    Expected(
        "gymnasium:CartPole-v1",
        tools={"cart_pole_v1": ["action"]},
        tool="cart_pole_v1",
        arguments={"action": 1},
        shown={"observation": cart_pole_observation()},
        reward=1.0,
    ),
]


class Inspected:
    """An environment as the inspector sees it, served over HTTP and started for stdio."""

    def __init__(self, served: str, folder: Path, url: str) -> None:
        self._folder = folder
        command = {
            "command": sys.executable,
            "args": ["-m", "openenv.cli", "mcp", served, "--task", f"seed={SEED}"],
            "cwd": str(folder),
        }
        servers = {"http": {"type": "http", "url": f"{url}/mcp?seed={SEED}"}, "stdio": command}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def ask(self, transport: str, method: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Have the inspector ask something, in a session of its own."""
        where = ["--config", str(self._folder / "mcp.json"), "--server", transport]
        how = ["--cli", "--quiet", "--format", "json"]
        return INSPECTOR.run(*how, *where, "--method", method, *options, home=self._folder)

    def tools(self, transport: str) -> list[dict[str, Any]]:
        """List the tools."""
        listed = self.ask(transport, "tools/list", "--strict")
        assert listed.returncode == 0, listed.stderr
        tools: list[dict[str, Any]] = json.loads(listed.stdout)["result"]["tools"]
        return tools

    def call(self, transport: str, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool."""
        called = self.ask(transport, "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        assert called.returncode in (0, FAILED), called.stderr
        result: dict[str, Any] = json.loads(called.stdout)["result"]
        assert result["isError"] == (called.returncode == FAILED)
        return result


@pytest.fixture(scope="module", autouse=True)
def inspector() -> None:
    INSPECTOR.install()


@contextmanager
def inspecting(served: str, folder: Path) -> Iterator[Inspected]:
    """Serve an environment on a free port until the block ends."""
    write_files(folder / "notes_env", NOTES)
    words = ["-m", "openenv.cli", "serve", served, "--port", "0"]
    variables = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with ForkedProgram(words, cwd=folder, env=variables, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None
            yield Inspected(served, folder, found[0])
        finally:
            server.kill()


@pytest.mark.parametrize("expected", ENVIRONMENTS, ids=[one.served for one in ENVIRONMENTS])
def test_it_lists_and_calls_the_tools(expected: Expected, tmp_path: Path) -> None:
    with inspecting(expected.served, tmp_path) as environment:
        listings = {transport: environment.tools(transport) for transport in TRANSPORTS}
        results = {
            transport: environment.call(transport, expected.tool, **expected.arguments) for transport in TRANSPORTS
        }
    assert listings["http"] == listings["stdio"]
    listed = {tool["name"]: list(tool["inputSchema"]["properties"]) for tool in listings["http"]}
    assert listed == expected.tools
    assert all(tool["description"] for tool in listings["http"])
    assert results["http"] == results["stdio"]
    result = results["http"]
    assert result["isError"] is False
    assert result["structuredContent"].items() >= expected.shown.items()
    assert result["_meta"].items() >= {"openenv/reward": expected.reward, "openenv/done": expected.done}.items()


def test_it_meets_failures_and_nobody_else_s_notes(tmp_path: Path) -> None:
    with inspecting("notes_env", tmp_path) as environment:
        written = environment.call("http", "write", path="plan", text=HOSTILE)
        read = environment.call("http", "read", path="plan")
        wrong = environment.call("http", "write", path=["plan"], text="x", mode="w")
        reset = environment.ask("http", "tools/call", "--tool-name", "reset")
    assert written["content"][0]["text"] == f"{len(HOSTILE)} characters"
    assert "KeyError" in read["content"][0]["text"]
    assert wrong["isError"]
    assert "path" in wrong["content"][0]["text"]
    assert json.loads(reset.stderr)["error"]["code"] == "tool_not_found"
