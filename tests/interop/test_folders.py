"""Environment folders that were written for the public package are served by ours as by that one, unchanged."""

import json
import os
import re
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.interop.conftest import Templates
from tests.support.forked import ForkedProgram, Template
from tests.support.public_folders import PUBLIC_FOLDERS
from websockets.sync.client import connect

from openenv.core.providers.health import wait_until_healthy
from openenv.core.providers.local_process import LocalProcessProvider
from openenv.validation import validate_folder
from openenv.validation.policy import OWN_POLICY, failing, load_policy

# What each is told, frame by frame. Steps before the first reset are not among them: ours refuses them.
RESET = {"type": "reset", "data": {"seed": 7, "episode_id": "first"}}
STATE = {"type": "state"}


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "step", "data": {"type": "call_tool", "tool_name": tool, "arguments": arguments}}


SCRIPTS: dict[str, list[Any]] = {
    "dice_env": [
        RESET,
        STATE,
        {"type": "step", "data": {"hold": False}},
        {"type": "step", "data": {}},
        {"type": "step", "data": {"hold": "perhaps"}},
        {"type": "step", "data": {"hold": True, "more": 1}},
        {"type": "step", "data": {"hold": True}},
        STATE,
        {"type": "reset", "data": {"seed": 8, "episode_id": "second", "sides": 20}},
        {"type": "mcp", "data": {"jsonrpc": "2.0", "id": 1, "method": "tools/nothing"}},
        {"type": "nonsense"},
    ],
    "notes_env": [
        RESET,
        {"type": "step", "data": {"type": "list_tools"}},
        call("write", title="a", text="one"),
        call("write", title="b"),
        call("read", title="a"),
        call("read", title="z"),
        call("erase", title="a"),
        call("write", text="no title"),
        STATE,
        {"type": "mcp", "data": {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}},
        RESET,
        call("read", title="a"),
    ],
    "quiz_env": [
        RESET,
        {"type": "step", "data": {"answer": 4, "level": "hard"}},
        {"type": "step", "data": {"answer": "none"}},
        {"type": "step", "data": {"answer": "4", "confidence": 2, "level": "odd"}},
        STATE,
        {"type": "step", "data": {"answer": "4", "note": "not a number"}},
        {"type": "reset", "data": {"seed": 8, "episode_id": "second", "rounds": 3, "mode": "hard"}},
    ],
    "relic_env": [
        RESET,
        {"type": "step", "data": {"direction": "right", "strength": 1.5}},
        {"type": "step", "data": {"direction": "up"}},
        {"type": "step", "data": {"direction": "left"}},
        {"type": "step", "data": {"strength": 1}},
        STATE,
        {"type": "step", "data": {"direction": "right", "strength": 3}},
    ],
}


@contextmanager
def in_container(template: Template, folder: Path) -> Iterator[str]:
    """Serve a folder as its Dockerfile does, with the package that a template has."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    words = ["-m", "uvicorn", "server.app:app", "--port", str(port), "--log-level", "warning"]
    piped: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with ForkedProgram(words, cwd=folder, env=os.environ, template=template, **piped) as served:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            served.kill()


def answers(url: str, script: list[Any]) -> list[Any]:
    """Send one frame after another, and return what came back."""
    with connect(f"{url.replace('http', 'ws', 1)}/ws", proxy=None) as wire:
        told = []
        for frame in script:
            wire.send(json.dumps(frame))
            told.append(_comparable(json.loads(wire.recv(timeout=30))))
    return told


def _comparable(answer: Any) -> Any:
    """Leave out what differs between versions of pydantic and FastMCP, and between two ways to say the same."""
    text = re.sub(r'"url": "[^"]*"(, )?', "", json.dumps(answer))
    document = json.loads(re.sub(r", }", "}", text))
    data = document["data"]
    if "errors" in data:
        data["errors"] = [{"type": each["type"], "loc": each["loc"]} for each in data["errors"]]
    for tool in data.get("result", {}).get("tools", ()):
        tool["outputSchema"] = tool["meta"] = None  # what FastMCP adds of its own, and ours leaves out
    return document


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders, one beside the other."""
    parent = tmp_path_factory.mktemp("public")
    return {name: write(parent) for name, write in PUBLIC_FOLDERS.items()}


@pytest.fixture(scope="module")
def told(templates: Templates, folders: dict[str, Path]) -> dict[tuple[str, str], list[Any]]:
    """What each folder answers in its container with either package, and served by our command.

    All servers start at once.
    """
    with ExitStack() as servers:
        urls: dict[tuple[str, str], str] = {}
        for name, folder in folders.items():
            for package, template in templates.items():
                urls[name, package] = servers.enter_context(in_container(template, folder))
            # Without it, the server says where the environment raised, as one that its own author has started.
            command = LocalProcessProvider(folder, env_vars={"OPENENV_DEBUG": "0"})
            urls[name, "command"] = servers.enter_context(command).base_url
        for url in urls.values():
            wait_until_healthy(url, 120, lambda: None)
        return {key: answers(url, SCRIPTS[key[0]]) for key, url in urls.items()}


@pytest.mark.parametrize("name", PUBLIC_FOLDERS)
@pytest.mark.parametrize("ours", ["ours", "command"])
def test_each_frame_is_answered_as_by_the_public_package(
    name: str, ours: str, told: dict[tuple[str, str], list[Any]]
) -> None:
    public = told[name, "public"]
    for frame, answered, expected in zip(SCRIPTS[name], told[name, ours], public, strict=True):
        assert answered == expected, frame


def test_the_scripts_meet_successes_and_errors(told: dict[tuple[str, str], list[Any]]) -> None:
    kinds = {name: [answer["type"] for answer in told[name, "public"]] for name in PUBLIC_FOLDERS}
    assert all({"observation", "state"} <= set(kinds[name]) for name in PUBLIC_FOLDERS)
    assert kinds["dice_env"].count("error") == 3
    assert kinds["quiz_env"].count("error") == 2
    assert kinds["relic_env"].count("error") == 2


@pytest.mark.parametrize("name", PUBLIC_FOLDERS)
def test_validation_does_not_fail(name: str, folders: dict[str, Path]) -> None:
    report = validate_folder(folders[name])
    assert {result.check_id: result.evidence for result in failing(report.results, load_policy(OWN_POLICY))} == {}


@pytest.mark.parametrize("name", PUBLIC_FOLDERS)
def test_a_wheel_is_built_of_it(name: str, tmp_path: Path) -> None:
    folder = PUBLIC_FOLDERS[name](tmp_path)
    build = f"from setuptools.build_meta import build_wheel; build_wheel({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", build], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert {f"{name}/client.py", f"{name}/server/app.py"} <= set(zipfile.ZipFile(wheel).namelist())
