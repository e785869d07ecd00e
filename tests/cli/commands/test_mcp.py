"""``openenv mcp``: environments for agents that start them as a command."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.cli.conftest import Run
from tests.support.environment_folders import scaffold, write_files
from tests.support.forked import ForkedProgram
from tests.support.mcp_agents import run, text_of

NOISY = {
    "openenv.yaml": "spec_version: 1\nname: noisy_env\nruntime: fastapi\napp: server.app:app\nport: 8000\n",
    "__init__.py": "",
    "server/__init__.py": "",
    "README.md": "# Noisy\n",
    "server/app.py": """
        import os
        import subprocess
        import sys

        from openenv import Environment, Observation, create_app, tool
        from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

        print("imported")

        class NoisyEnvironment(Environment):
            def reset(self, seed=None, **task):
                print("reset", flush=True)
                subprocess.run([sys.executable, "-c", "print('a child')"], check=True)
                return Observation(metadata={"seed": seed, **task})

            @tool
            def say(self, text: str) -> str:
                '''Say something.

                Args:
                    text: What.
                '''
                os.write(1, b"written")
                return text + sys.stdin.read()

            def close(self):
                print("closed", file=sys.stderr, flush=True)

        app = create_app(NoisyEnvironment, CallToolAction, CallToolObservation, env_name="noisy_env")
        """,
}
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}


@pytest.fixture
def noisy(tmp_path: Path) -> Path:
    return write_files(tmp_path / "noisy_env", NOISY)


@asynccontextmanager
async def started(*arguments: object, errors: Path) -> AsyncIterator[ClientSession]:
    """Start the command as an agent does."""
    command = StdioServerParameters(command=sys.executable, args=["-m", "openenv.cli", "mcp", *map(str, arguments)])
    with errors.open("w") as file:
        async with (
            stdio_client(command, errlog=file) as (reading, writing),
            ClientSession(reading, writing) as session,
        ):
            await session.initialize()
            yield session


def test_an_agent_plays(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")

    async def play() -> Any:
        async with started(folder, errors=tmp_path / "log") as session:
            (only,) = (await session.list_tools()).tools
            return await session.call_tool(only.name, {"message": "hello"})

    result = run(play())
    assert result.structuredContent["echoed_message"] == "hello"
    assert result.meta == {"openenv/reward": 0.5, "openenv/done": False}
    assert (tmp_path / "log").read_text() == ""


def test_what_an_environment_prints_is_no_message(noisy: Path, tmp_path: Path) -> None:
    async def play() -> tuple[Any, str]:
        async with started(noisy, "--task", "seed=3", "--task", "split=a=b", errors=tmp_path / "log") as session:
            resources = [str(one.uri) for one in (await session.list_resources()).resources]
            assert resources == ["openenv://task", "openenv://readme"]
            task = (await session.get_prompt("task")).messages[0].content
            return await session.call_tool("say", {"text": "🟩"}), task.text  # type: ignore[union-attr]

    result, task = run(play())
    assert text_of(result) == "🟩"
    assert '"seed":3,"split":"a=b"' in task
    log = (tmp_path / "log").read_text()
    for printed in ("imported", "reset", "a child", "written", "closed"):
        assert printed in log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(noisy: Path, tmp_path: Path, number: signal.Signals) -> None:
    words = ["-m", "openenv.cli", "mcp", str(noisy)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with ForkedProgram(words, cwd=tmp_path, env=os.environ, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        for message in (HELLO, ready, listing):
            print(json.dumps(message), file=process.stdin, flush=True)
        assert [json.loads(process.stdout.readline())["id"] for _ in range(2)] == [0, 1]
        process.send_signal(number)
        assert process.wait(60) in (-number, 130)
        log = process.stderr.read()
    assert "closed" in log
    assert "Traceback" not in log


def test_an_agent_that_goes_ends_it(noisy: Path, openenv: Run) -> None:
    done = openenv("mcp", noisy, typed=json.dumps(HELLO) + "\n")
    assert done.returncode == 0
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] in ([0], [])
    assert "Traceback" not in done.stderr


def test_what_is_no_message_is_survived(noisy: Path, openenv: Run) -> None:
    done = openenv("mcp", noisy, typed="not json\n[]\n")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_an_environment_that_there_is_not(openenv: Run) -> None:
    done = openenv("mcp", "nowhere_env")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")


@pytest.mark.parametrize("task", ["seed", "=3", ""])
def test_a_task_that_is_none(openenv: Run, task: str) -> None:
    done = openenv("mcp", "wordle", "--task", task)
    assert done.returncode == 2
    assert "Expected NAME=VALUE" in done.stderr


def test_a_seed_that_is_none(openenv: Run) -> None:
    done = openenv("mcp", "wordle", "--task", "seed=x")
    assert done.returncode != 0
    assert "seed" in done.stderr
