"""``openenv play``, by a person whose typing is piped in."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.environment_folders import public_environment, scaffold, write_files
from tests.support.forked import ForkedProgram
from tests.support.servers import RunningServer, eventually
from tests.support.trace_files import BEGAN, entries, episode, new_file

from openenv.traces import Entry

STUBBORN = """
from typing import Literal

from pydantic import Field

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.exceptions import IllegalActionError


class MyAction(Action):
    move: Literal["left", "leap", "wait"]
    times: int = Field(default=2, ge=1)
    note: str | None = None


class MyObservation(Observation):
    said: str = ""


class MyEnvironment(Environment[MyAction, MyObservation, State]):
    def reset(self, seed=None):
        return MyObservation(said=f"seed {seed}")

    def step(self, action):
        if action.move == "leap":
            raise IllegalActionError("the \\x1b[31mrules\\x1b[0m forbid [bold]leaping[/bold]")
        if action.move == "wait":
            raise RuntimeError("it broke")
        return MyObservation(said=f"{action.move} {action.times} {action.note}", reward=0.5, done=action.times == 9)

    @property
    def state(self):
        return State()
"""
TOOLS = """
from openenv import Action, Environment, Observation, State, ToolResult, tool


class Shout(Action):
    text: str


class Whisper(Action):
    text: str
    softly: bool = True


class Heard(Observation):
    said: str = ""


class MyEnvironment(Environment):
    def reset(self, seed=None):
        self.kept = {}
        return Observation()

    @tool
    def keep(self, name: str, value: int | str | None = None, metadata: str = "none") -> str:
        \"\"\"Keep a value.\"\"\"
        self.kept[name] = value
        return f"{name} is {value!r}, {metadata}"

    @tool
    def look(self, name: str) -> object:
        \"\"\"Look one up.\"\"\"
        return self.kept[name]

    @tool(terminal=True)
    def submit(self) -> ToolResult:
        \"\"\"Hand it in.\"\"\"
        return ToolResult([*self.kept], reward=2.0)


class Secretive(MyEnvironment):
    def reset(self, seed=None):
        super().reset(seed)
        return Observation(metadata={"task": "Keep three values."})


class Mixed(Environment[Shout | Whisper, Heard, State]):
    def reset(self, seed=None):
        return Heard(said="hush")

    def step(self, action):
        return Heard(said=action.text.upper() if isinstance(action, Shout) else f"{action.text} {action.softly}")

    @property
    def state(self):
        return State()

    @tool
    def sing(self) -> str:
        \"\"\"Sing.\"\"\"
        return "la"
"""
STUBBORN_APP = """
from openenv.core.env_server.app import create_app
from my_env.server.my_env_environment import MyAction, MyEnvironment, MyObservation
app = create_app(MyEnvironment, MyAction, MyObservation)
"""


@pytest.fixture
def stubborn(tmp_path: Path) -> Path:
    """An environment that refuses, breaks and ends on command."""
    files = {"server/my_env_environment.py": STUBBORN, "server/app.py": STUBBORN_APP}
    return write_files(scaffold(tmp_path, "my_env"), files)


@pytest.fixture
def with_tools(tmp_path: Path) -> Any:
    """Makes the folder of an environment with tools."""

    def make(environment: str) -> Path:
        app = (
            "from openenv import create_app\n"
            f"from my_env.server.my_env_environment import {environment}\n"
            f"app = create_app({environment})\n"
        )
        return write_files(scaffold(tmp_path, "my_env"), {"server/my_env_environment.py": TOOLS, "server/app.py": app})

    return make


def lines(*words: str) -> str:
    return "".join(f"{word}\n" for word in words)


def test_an_episode_of_catch(openenv: Any) -> None:
    played = openenv("play", "catch", "--seed", 1, typed=lines("r", "right", *[""] * 7, "q"))
    assert (played.returncode, played.stderr) == (0, "")
    assert "new episode, seed 1" in played.stdout
    assert played.stdout.count("move (left, stay, right)") == 9
    assert "│  ball 4 · paddle 4 · row 9" in played.stdout  # below the board
    assert re.search(r"│ +\.\.\.\.x +│", played.stdout)
    assert "The episode is over: 1 in 9 steps." in played.stdout
    assert played.stdout.rstrip().endswith("Bye.")


def test_a_game_of_wordle(openenv_here: Any) -> None:
    played = openenv_here("play", "wordle", "--seed", 5, typed=lines("zzzzz", "stare", "stare"))
    assert played.returncode == 0
    assert "'zzzzz' is not in the word list" in played.stdout
    assert " S  T (A)(R) E " in played.stdout
    assert "[ ] in its place, ( ) elsewhere" in played.stdout
    assert "5 guesses left." in played.stdout
    assert "4 guesses left." not in played.stdout


def test_what_a_person_has_no_use_for_is_not_asked(openenv_here: Any) -> None:
    played = openenv_here("play", "openspiel", "--seed", 1, typed=lines("?", "1", "0", "q"))
    assert (played.returncode, played.stderr) == (0, "")
    assert "step 2" in played.stdout
    assert "game_name" not in played.stdout
    assert "game_params" not in played.stdout


def test_a_picture_that_repeats_the_text_is_shown_once(openenv_here: Any) -> None:
    played = openenv_here("play", "openspiel", "--seed", 1, typed=lines("q"))
    assert played.stdout.count("You are player 0 of catch.") == 1
    assert played.stdout.count("Legal actions:") == 1
    played = openenv_here("play", "sudoku", "--seed", 1, typed=lines("q"))
    assert played.stdout.count("C1 C2 C3") == 1
    assert "Hints: R1C2" in played.stdout  # which only the text has


def test_what_came_of_a_move_is_said_beside_the_picture(openenv_here: Any) -> None:
    played = openenv_here("play", "sudoku", "--seed", 1, typed=lines("1", "2", "9", "1", "2", "3", "q"))
    assert "row (1 to 9) > 1\n" in played.stdout
    assert "Wrong: 9 cannot stand in row 1, column 2" in played.stdout
    assert "Right: 3 stands in row 1, column 2." in played.stdout


def test_actions_go_by_the_names_that_agents_have_for_them(openenv_here: Any) -> None:
    played = openenv_here("play", "echo", typed=lines("echo", "hello", "echo_message", "hi", "q"))
    assert (played.returncode, played.stderr) == (0, "")
    assert "action (echo, echo_message, echo_with_length) > echo\n" in played.stdout
    assert re.search(r"echoed_message +hello +│", played.stdout)
    assert re.search(r"│ +hi +│", played.stdout)


def test_a_reset_takes_parameters(openenv_here: Any) -> None:
    options = ("--seed", 2, "--reset", "env_id=TicTacToe-v0", "--reset", "opponents=random", "--reset", "max_turns=4")
    played = openenv_here("play", "textarena", *options, typed=lines("4", "q"))
    assert (played.returncode, played.stderr) == (0, "")
    assert "3 | O | 5" in played.stdout
    assert "Player 1 placed their symbol (X)" in played.stdout


@pytest.mark.parametrize(
    ("parameter", "said"),
    [
        ("hard", "--reset 'hard': expected NAME=VALUE, as in difficulty=hard."),
        ("=hard", "--reset '=hard': expected NAME=VALUE, as in difficulty=hard."),
        ("seed=3", "--reset 'seed=3': the seed is given with --seed."),
    ],
)
def test_what_is_no_parameter_is_refused(openenv_here: Any, parameter: str, said: str) -> None:
    played = openenv_here("play", "sudoku", "--reset", parameter)
    assert played.returncode == 1
    assert said in played.stderr
    assert len(played.stderr.splitlines()) == 1


def test_a_parameter_that_the_environment_refuses_is_one_line(openenv_here: Any) -> None:
    played = openenv_here("play", "sudoku", "--reset", "difficulty=[1]")
    assert played.returncode == 1
    assert "difficulty: Input should be 'very-easy', 'easy', 'medium' or 'hard', got [1]" in played.stderr
    assert len(played.stderr.splitlines()) == 1


def test_fields_are_asked_for_one_by_one_with_their_defaults_and_then_the_next_episode(
    openenv: Any, stubborn: Path
) -> None:
    played = openenv(
        "play", stubborn, "--seed", 3, typed=lines("lef", "", "", "", "3", "hello there", "left", "9", "", "", "q")
    )
    assert [seed for seed in range(3, 6) if f"seed {seed}" in played.stdout] == [3, 4]  # a new episode has the next
    assert "move (left, leap, wait) > lef\n" in played.stdout
    assert "times [2] > \n" in played.stdout
    for said in ("left 2 None", "left 3 hello there", "left 9 None"):
        assert said in played.stdout
    assert "move (left, leap, wait) [left] > \n" in played.stdout
    assert "times [3] > 9\n" in played.stdout
    assert "The episode is over: 1.5 in 3 steps." in played.stdout


def test_refused_ambiguous_and_failing_actions_are_asked_for_again(openenv: Any, stubborn: Path) -> None:
    typed = lines(
        "l", "jump", "leap", "", "", "left", "0", "", "wait", "1", "", "left", "x", "1.5", "", "left", "1", "", "q"
    )
    played = openenv("play", stubborn, typed=typed)
    assert played.returncode == 0
    assert "expected one of left, leap, wait; got 'l'" in played.stdout
    assert "got 'jump'" in played.stdout
    assert "the rules forbid [bold]leaping[/bold]" in played.stdout
    assert "times: Input should be greater than or equal to 1" in played.stdout
    assert "The environment failed: RuntimeError: it broke" in played.stdout
    assert "got 'x'" in played.stdout
    assert "times: Input should be a valid integer" in played.stdout
    assert "left 1 None" in played.stdout
    assert "\x1b" not in played.stdout


def test_tools_are_chosen_by_name(openenv: Any, with_tools: Any) -> None:
    typed = lines("ke", "a", "3", "", "", "b", "three", "mine", "look", "zz", "l", "a", "?", "submit", "", "", "q")
    played = openenv("play", with_tools("MyEnvironment"), "--seed", 1, typed=typed)
    assert (played.returncode, played.stderr) == (0, "")
    assert "look  Look one up." in played.stdout
    assert "tool (keep, look, submit) > ke\n" in played.stdout
    assert "tool (keep, look, submit) [keep] > \n" in played.stdout
    for shown in ("a is 3, none", "b is 'three', mine", "Failed: KeyError: 'zz'", "│  a b", "total 2"):
        assert shown in played.stdout, played.stdout
    assert "The episode is over: 2 in 5 steps." in played.stdout
    assert "tool  keep, look, submit" not in played.stdout  # they are listed with what they do
    assert played.stdout.count("keep  Keep a value.") == 2  # at the beginning, and when asked for


def test_a_task_that_is_only_in_the_metadata_is_warned_of_once(openenv: Any, with_tools: Any) -> None:
    played = openenv("play", with_tools("Secretive"), "--seed", 1, typed=lines("submit", "", "submit", "q"))
    assert (played.returncode, played.stderr) == (0, "")
    assert played.stdout.count("The first observation has text only in its metadata ('task')") == 1


def test_unions_and_tools_are_chosen_together(openenv: Any, with_tools: Any) -> None:
    typed = lines("s", "shout", "hey", "whisper", "psst", "false", "sing", "", "q")
    played = openenv("play", with_tools("Mixed"), "--seed", 1, typed=typed)
    assert (played.returncode, played.stderr) == (0, "")
    assert "action (shout, whisper, sing) > s\n" in played.stdout
    for shown in ("expected one of shout, whisper, sing; got 's'", "HEY", "psst False", "la"):
        assert shown in played.stdout, played.stdout


def test_help_is_shown_on_demand_and_the_end_of_the_input_ends_the_game(openenv: Any, tmp_path: Path) -> None:
    played = openenv("play", scaffold(tmp_path, "my_env"), typed=lines("?", "\\?", "\\q"))
    assert played.returncode == 0
    assert played.stdout.rstrip().endswith("Bye.")
    assert played.stdout.count("The text to echo") == 2
    assert re.search(r"echoed_message +\? +│", played.stdout)
    assert re.search(r"echoed_message +q +│", played.stdout)


def test_a_running_server_is_played_by_its_address(openenv_here: Any, counter_server: RunningServer) -> None:
    for arguments in ((counter_server.url,), (f"127.0.0.1:{counter_server.port}",), ("--url", counter_server.url)):
        played = openenv_here("play", *arguments, "--seed", 1, typed=lines("q"))
        assert played.returncode == 0, played.stderr
        assert "new episode" in played.stdout


def test_public_folders_are_played(openenv: Any, tmp_path: Path) -> None:
    played = openenv("play", public_environment(tmp_path), typed=lines("4", "-1", "q"))
    assert re.search(r"step 2 · reward -1 · total 3", played.stdout)


def test_no_server_is_told(openenv_here: Any) -> None:
    played = openenv_here("play", "http://127.0.0.1:9")
    assert played.returncode == 2
    assert played.stderr.startswith("Error: Expected the environment's schemas at http://127.0.0.1:9/schema, but: ")


def test_a_server_that_cannot_start_is_told_with_its_log(openenv: Any, tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    (folder / "server" / "app.py").write_text("raise ValueError('no luck')")
    played = openenv("play", folder)
    assert played.returncode == 1
    assert "ValueError: no luck" in played.stderr


class Terminal:
    """A person's terminal with the command running in it."""

    def __init__(self, *arguments: object) -> None:
        self._screen, inner = pty.openpty()
        command = [sys.executable, "-m", "openenv.cli", *map(str, arguments)]
        self.process = subprocess.Popen(
            command,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(inner)
        self.text = ""

    def wait_for(self, text: str) -> None:
        """Read until a text is shown."""
        deadline = time.monotonic() + 60
        while text not in self.text:
            ready, _, _ = select.select([self._screen], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, self.text
            self.text += os.read(self._screen, 4096).decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._screen)


def test_in_a_terminal_ctrl_c_ends_with_130(tmp_path: Path) -> None:
    terminal = Terminal("play", scaffold(tmp_path, "my_env"), "--seed", 1)
    try:
        terminal.wait_for("message")
        terminal.type("hello\r")
        terminal.wait_for("step 1")
        assert "\x1b[" in terminal.text  # it has colours
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(60) == 130
    finally:
        terminal.close()


def test_another_worlds_environment_is_played(openenv_here: Any) -> None:
    ended = openenv_here("play", "gymnasium:CliffWalking-v1", "--seed", 1, typed="0\n9\nq\n")
    assert ended.returncode == 0, ended.stderr
    assert "observation 36" in " ".join(ended.stdout.split())
    assert "observation 24" in " ".join(ended.stdout.split())


@pytest.mark.parametrize("token", ["", "a-token-of-the-user-s"])
def test_the_token_that_the_page_asks_for_is_printed(tmp_path: Path, token: str) -> None:
    environment = {**os.environ, "BROWSER": "true", "OPENENV_AUTH": "always", "OPENENV_TOKEN": token}
    words = ["-m", "openenv.cli", "play", "echo", "--web"]
    with ForkedProgram(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        page = next(line.split()[-1] for line in lines if line.startswith("The page is at "))
        said = next(lines)
        if token:
            assert said == "The page requires the token that OPENENV_TOKEN holds here\n"
        else:
            assert said.startswith("The page requires this token: ")
            token = said.split()[-1]
        with httpx.Client(base_url=page.removesuffix("/web/"), trust_env=False) as http:
            assert http.get("/schema").status_code == 401
            assert http.get("/schema", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_a_browser_is_opened_on_the_page(tmp_path: Path) -> None:
    opened, script = tmp_path / "opened", tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" >{opened}.new; mv {opened}.new {opened}\n')
    script.chmod(0o755)
    environment = {**os.environ, "BROWSER": str(script)}
    words = ["-m", "openenv.cli", "play", "echo", "--web"]
    with ForkedProgram(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE) as process:
        eventually(opened.exists, "the browser was opened")
        address = opened.read_text().strip()
        with httpx.Client(trust_env=False) as http:
            assert http.get(address).status_code == 200
            assert http.get(f"{address}config").json()["play"] is True
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stdout is not None
        said = process.stdout.read()
    assert f"The page is at {address}" in said
    assert "Bye." in said


def test_the_page_has_fields_for_seed_and_parameters(openenv_here: Any) -> None:
    finished = openenv_here("play", "echo", "--web", "--seed", 1)
    assert finished.returncode == 2
    assert "leave them out" in finished.stderr


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A file with an episode of long ago, of which a server would remove it."""
    file = tmp_path / "traces.db"
    said = Entry("step", BEGAN, 0.0, {"message": "hello"}, {"observation": {}, "reward": 1.0, "done": False}, False)
    with new_file(file) as traces:
        traces.add(episode(1, 1), entries(1))
        traces.add(episode(2, 2, "echo"), [*entries(0), said, said])
    return file


@pytest.mark.parametrize("more", [(), ("--in-process",)])
def test_the_page_goes_on_from_a_step_on_record(recorded: Path, more: tuple[str, ...]) -> None:
    words = ["-m", "openenv.cli", "play", "echo", "--from", ".", "--episode", "1-2", "--step", "2", *more]
    before = recorded.read_bytes()
    environment = {**os.environ, "BROWSER": "true"}
    with ForkedProgram(words, cwd=recorded.parent, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        page = next(line.split()[-1] for line in lines if line.startswith("The page is at "))
        address, query = page.split("?")
        assert query == "episode=1-1&step=2"
        with httpx.Client(base_url=address, trust_env=False) as http:
            assert http.get("config").json()["traces"] is True
            assert [found["environment"] for found in http.get("traces/episodes").json()] == ["echo"]
            assert len(http.get("traces/episodes/1-1/entries").json()) == 3
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert recorded.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--episode", "1-2"), "add --from FILE"),
        (("--step", "1"), "add --from FILE"),
        (("--from", "traces.db"), "--from needs --episode"),
        (("--from", "traces.db", "--episode", "1-2", "--step", "3"), "has 2 steps, and no step 3"),
        (("--from", "traces.db", "--episode", "1-2", "--url", "http://localhost:1"), "leave out --url"),
        (("--from", "traces.db", "--episode", "1-2", "--seed", "1"), "leave them out"),
    ],
)
def test_options_of_an_episode_on_record_need_each_other(
    openenv_here: Any, recorded: Path, options: tuple[str, ...], said: str
) -> None:
    finished = openenv_here("play", "echo", *options)
    assert finished.returncode == 2
    assert said in " ".join(finished.stderr.split())
