"""The snippets of the documents that OpenEnv was made from work as they were written.

They are users' code, kept word for word in the pages beside this file but for the address of the server.
"""

import os
import re
import runpy
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.servers import RunningServer
from tests.support.snippets import Walkthrough, blocks_of

from echo_env import EchoAction, EchoEnv
from openenv import GenericEnvClient
from openenv.adapters.targets import find_adapted

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@pytest.fixture
def walkthrough(tmp_path: Path) -> Iterator[Walkthrough]:
    """A folder whose files, and those of ``my_env`` in it, can be imported from each other."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    search_path = os.pathsep.join([str(tmp_path), str(tmp_path / "my_env")])
    with Walkthrough(tmp_path, port, {"PYTHONPATH": search_path}).following() as walkthrough:
        yield walkthrough


def follow(walkthrough: Walkthrough, name: str) -> None:
    page = HERE / name
    for block in blocks_of(page):
        walkthrough.follow(block, page)


@pytest.mark.parametrize("name", ["echo.md", "code_feedback.md"])
def test_a_seed_can_be_followed_to_its_end(walkthrough: Walkthrough, name: str) -> None:
    follow(walkthrough, name)


def test_wordle_is_played(walkthrough: Walkthrough) -> None:
    follow(walkthrough, "wordle.md")

    finished = subprocess.run(
        [sys.executable, "play.py"], cwd=walkthrough.folder, capture_output=True, text=True, encoding="utf-8"
    )

    assert finished.returncode == 0, finished.stderr
    started, *turns = finished.stdout.splitlines()
    assert started == "Game started. Word length: 5"
    turn = r"'(STARE|HOUSE|MOUSE)' → ([🟩🟨⬛]{5}) \(reward: (0.0|1.0)\)"
    guesses = [line for line in turns if re.fullmatch(turn, line)]
    assert 1 <= len(guesses) <= 3
    # The secret word is random: the last line says so in the one case in 700 in which a guess was right.
    won = [f"Won! Word was {guesses[-1][1:6]}"] if "1.0" in guesses[-1] else []
    assert turns == guesses + won


def test_the_web_interfaces_application_is_made_from_an_instance(walkthrough: Walkthrough) -> None:
    (block,) = blocks_of(HERE / "web_interface.md")
    (walkthrough.folder / "snippet.py").write_text(block.text, encoding="utf-8")
    app = runpy.run_path(str(walkthrough.folder / "snippet.py"))["app"]

    with RunningServer(app) as server, EchoEnv(base_url=server.url).sync() as client:
        client.reset()
        assert client.step(EchoAction(message="Hello, World!")).reward == 1.3


def test_environments_can_be_imported_from_the_repository_as_envs() -> None:
    program = "from envs.echo_env import EchoAction, EchoEnv; print(EchoAction(message='hi').message, EchoEnv.__name__)"

    finished = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)

    assert finished.stdout == "hi EchoEnv\n", finished.stderr


def test_the_minimal_ors_environment_is_specified_for_a_trainer_and_played_by_our_client(
    walkthrough: Walkthrough, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"TRL_EXPERIMENTAL_SILENCE": "1", "OPENREWARD_DISABLE_UPDATE_CHECK": "1"}
    for name in ("OPENREWARD_API_URL", "OPENREWARD_SESSION_URL"):  # which the page sets, for this process
        settings[name] = ""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)

    follow(walkthrough, "open_reward.md")

    assert "num_rows: 2" in capsys.readouterr().out
    app = find_adapted(f"ors:http://127.0.0.1:{walkthrough.port}").app()
    with RunningServer(app) as server, GenericEnvClient(server.url).sync() as env:
        for index, target in enumerate(["hello", "world"]):
            assert env.reset(index=index).observation["prompt"] == f"Echo '{target}' to win."
            echo = {"type": "call_tool", "tool_name": "echo", "arguments": {"text": "no"}}
            assert env.step(echo).reward == 0.0
            result = env.step({**echo, "arguments": {"text": target}})
            assert (result.observation["result"], result.reward, result.done) == ("match", 1.0, True)
