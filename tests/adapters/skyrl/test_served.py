"""Served environments as SkyRL-Gym's."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Literal

import pytest
import skyrl_gym
from skyrl_gym.metrics import aggregate_for_environment
from tests.support.servers import RunningServer, eventually

from openenv import Action, Environment, Observation, State, ToolResult, tool
from openenv.adapters.skyrl import ServedTextEnv
from openenv.adapters.targets import find_adapted
from openenv.core.env_server import create_app
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError, IllegalActionError

PROMPT = [{"role": "system", "content": "Play."}]


class Move(Action):
    direction: Literal["left", "right"]


class Place(Observation):
    place: int


class Walk(Environment[Move, Place, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True

    def reset(self, seed: int | None = None) -> Place:
        self.place = seed or 0
        return Place(place=self.place)

    def step(self, action: Move) -> Place:
        if action.direction == "left" and self.place == 0:
            raise IllegalActionError("a wall is on the left; go right")
        self.place += 1 if action.direction == "right" else -1
        return Place(place=self.place, reward=0.5, done=self.place == 2, metadata={"at": self.place})

    @property
    def state(self) -> State:
        return State()


class Box(Environment[CallToolAction, CallToolObservation, State]):
    """A box that is opened by its number."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True

    def reset(self, seed: int | None = None) -> Observation:
        self.number = seed or 0
        return Observation()

    @tool(terminal=True)
    def open_box(self, number: int) -> ToolResult:
        """Open the box.

        Args:
            number: Its number.
        """
        return ToolResult("open" if number == self.number else "shut", reward=float(number == self.number))


@pytest.fixture(scope="module")
def walk() -> Iterator[RunningServer]:
    with RunningServer(create_app(Walk, Move, Place, max_concurrent_envs=8)) as server:
        yield server


@pytest.fixture(scope="module")
def box() -> Iterator[RunningServer]:
    with RunningServer(create_app(Box, CallToolAction, CallToolObservation, max_concurrent_envs=8)) as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def registered() -> None:
    skyrl_gym.register("openenv", "openenv.adapters.skyrl:ServedTextEnv")


def make(server: RunningServer, **extras: Any) -> ServedTextEnv:
    env = skyrl_gym.make("openenv", env_config={"max_turns": 5}, extras={"env_name": server.url, **extras})
    assert isinstance(env, ServedTextEnv)
    return env


def test_an_episode_is_a_conversation(walk: RunningServer) -> None:
    env = make(walk, reset={"seed": 1})
    prompt, metadata = env.init(PROMPT)
    assert prompt[0] == PROMPT[0]
    assert prompt[1] == {
        "role": "user",
        "content": "place 1\n\nAnswer with exactly one of these and nothing else: left, right.",
    }
    assert metadata == {}
    assert env.step("left") == {
        "observations": [{"role": "user", "content": "place 0"}],
        "reward": 0.5,
        "done": False,
        "metadata": {"at": 0},
    }
    env.step(" RIGHT\n")
    assert env.step("right") == {"observations": [], "reward": 0.5, "done": True, "metadata": {"at": 2}}
    assert env.get_metrics() == {"turns": 3, "refused": 0, "reward": 1.5}
    env.close()


def test_what_is_refused_is_told_and_not_sent(walk: RunningServer) -> None:
    env = make(walk)
    env.init(PROMPT)
    jumped, walled = env.step("jump"), env.step("left")
    for output, told in ((jumped, "expected one of left, right; got 'jump'"), (walled, "a wall is on the left")):
        assert told in output["observations"][0]["content"]
        assert told in output["metadata"]["problem"]
        assert (output["reward"], output["done"]) == (0.0, False)
    assert env.step("right")["observations"][0]["content"] == "place 1"
    assert env.get_metrics() == {"turns": 3, "refused": 2, "reward": 0.5}
    env.close()


def test_turns_are_limited(walk: RunningServer) -> None:
    env = make(walk, max_turns=2)
    env.init(PROMPT)
    assert env.step("jump")["done"] is False
    assert env.step("jump") == {
        "observations": [],
        "reward": 0.0,
        "done": True,
        "metadata": {"problem": "expected one of left, right; got 'jump'"},
    }
    env.close()


def test_several_at_once_are_apart(walk: RunningServer) -> None:
    envs = [make(walk, reset={"seed": seed}) for seed in range(4)]
    assert [env.init(PROMPT)[0][1]["content"].split("\n")[0] for env in envs] == [f"place {n}" for n in range(4)]
    assert [env.step("right")["observations"][:1] for env in envs[2:]] == [
        [{"role": "user", "content": f"place {n}"}] for n in (3, 4)
    ]
    for env in envs:
        env.close()
    metrics = aggregate_for_environment("openenv", [env.get_metrics() for env in envs])
    assert metrics == {"turns": 0.5, "refused": 0.0, "reward": 0.25}


def test_tools_are_listed_and_called(box: RunningServer) -> None:
    env = make(box, reset={"seed": 7})
    shown = env.init(PROMPT)[0][1]["content"]
    assert '"name": "open_box"' in shown
    assert '"description": "Its number."' in shown
    output = env.step('{"tool_name": "open_box", "arguments": {"number": 7}}')
    assert (output["reward"], output["done"], output["observations"]) == (1.0, True, [])
    env.close()


def test_skyrl_both_ways_is_the_same_as_skyrl_alone() -> None:
    task = {"prompt": PROMPT, "reward_spec": {"ground_truth": "4"}, "max_turns": 3}
    theirs = skyrl_gym.make("gsm8k_multi_turn", extras=task)
    with RunningServer(find_adapted("skyrl:gsm8k_multi_turn").app()) as server:
        mine = make(server, reset=task)
        mine.init(PROMPT)
        theirs.init(PROMPT)
        for reply in ("#### 5", "4", "#### 4"):
            seen, expected = mine.step(reply), theirs.step(reply)
            assert (seen["reward"], seen["done"]) == (expected["reward"], expected["done"])
        mine.close()


def test_a_server_that_requires_a_token_gets_that_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_TOKEN", "sesame")
    with RunningServer(create_app(Walk, Move, Place, max_concurrent_envs=8, auth="always", token="sesame")) as server:
        env = make(server)
        env.init(PROMPT)
        assert env.step("right")["reward"] == 0.5
        env.close()


@pytest.mark.parametrize("token", ["", "sesame"])
def test_a_server_that_was_started_here_may_require_its_token(token: str) -> None:
    program = (
        "from openenv.adapters.skyrl import ServedTextEnv\n"
        "env = ServedTextEnv(extras={'env_name': 'echo'})\n"
        "env.init([])\n"
        "print(env.step('hello')['reward'])\n"
        "env.close()"
    )
    variables = {**os.environ, "OPENENV_AUTH": "always", "OPENENV_TOKEN": token}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)
    assert (ended.stdout, ended.stderr) == ("0.5\n", "")


def test_an_environment_must_be_named() -> None:
    with pytest.raises(ConfigurationError, match=r'"env_name": "http://localhost:8000".*got None'):
        ServedTextEnv()
    with pytest.raises(EnvironmentNotFoundError):
        ServedTextEnv(extras={"env_name": "no-such-environment"})


@pytest.mark.needs("reasoning-gym")
def test_a_server_that_was_started_by_name_ends_with_the_process() -> None:
    program = (
        "from openenv.adapters.skyrl import ServedTextEnv\n"
        "envs = [ServedTextEnv(extras={'env_name': 'reasoning_gym:chain_sum?seed=7', 'reset': {'index': 0}})"
        " for _ in range(2)]\n"
        "print(envs[0].init([])[0][0]['content'].split('=')[0], envs[1].init([])[0] is None)\n"
        "print(envs[0].step('247')['reward'], envs[0]._session.async_client.base_url == "
        "envs[1]._session.async_client.base_url, envs[0]._session.async_client.base_url)\n"
        "[env.close() for env in envs]"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ended.stderr == ""
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("State the final answer to the following arithmetic problem: 72 + 93")
    reward, shared, url = lines[1].split()
    assert (reward, shared) == ("1.0", "True")
    eventually(lambda: not answers(url), "the server ends")


def answers(url: str) -> bool:
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.socket() as peer:
        return peer.connect_ex((host, int(port))) == 0
