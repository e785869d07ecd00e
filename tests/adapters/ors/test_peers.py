"""Clients that others wrote play environments of ours over ORS: the OpenReward SDK's, and TRL's on top of it."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import aiohttp
import openreward
import pytest
from openreward.api.environments.client import Environment, Session
from openreward.api.errors import SessionTerminatedError, ToolCallError
from tests.conftest import Serve
from tests.support.environments.ors import RiddleEnvironment
from tests.support.ors_wire import OrsWire
from tests.support.servers import RunningServer, ServerProcess
from trl.experimental.openreward import OpenRewardSpec

from echo_env import EchoAction
from echo_env.models import EchoObservation
from echo_env.server.echo_environment import EchoEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import ConcurrencyConfig
from wordle_env import WordleAction
from wordle_env.models import WordleObservation
from wordle_env.rules import MAX_GUESSES
from wordle_env.server.wordle_environment import WordleEnvironment
from wordle_env.words import word_list

Connect = Callable[..., Environment]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Have the SDK's client connect: ``connect(url, variant=None)``."""
    clients = []

    def connected(url: str, variant: str | None = None, key: str = "") -> Environment:
        point_at(url, monkeypatch)
        client = openreward.OpenReward(api_key=key)
        clients.append(client)
        return client.environments.get("any", variant=variant)

    yield connected
    for client in clients:
        client.close()


@pytest.fixture
def riddle(serve: Serve) -> RunningServer:
    return serve(RiddleEnvironment, CallToolAction, CallToolObservation, env_name="riddle")


def point_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENREWARD_API_URL", url)
    monkeypatch.setenv("OPENREWARD_SESSION_URL", url)


def prompt_of(session: Session) -> str:
    (block,) = session.get_prompt()
    text: str = block.text
    return text


def refusal(session: Session, name: str, **arguments: Any) -> str:
    with pytest.raises(ToolCallError) as caught:
        session.call_tool(name, arguments)
    reason: str = caught.value.reason
    return reason


class TestTheSdksClient:
    @pytest.mark.parametrize("variant", [None, "riddle"])
    def test_plays_an_environment_with_tools(self, riddle: RunningServer, connect: Connect, variant: Any) -> None:
        env = connect(riddle.url, variant)
        assert env.list_splits() == ["train"]
        assert [task.task_spec for task in env.list_tasks("train")] == [{"word": "hello"}, {"word": "world"}]
        assert (env.num_tasks("train"), env.get_task("train", 1).task_spec) == (2, {"word": "world"})
        assert [task.task_spec for task in env.get_task_range("train", -1)] == [{"word": "world"}]
        with env.session(task=env.get_task("train", 1)) as session:
            assert prompt_of(session) == "Tell me world."
            assert [tool.name for tool in session.list_tools()] == [
                "tell",
                "told",
                "recall",
                "fall",
                "paint",
                "whisper",
            ]
            assert refusal(session, "shout") == "not_found"
            assert refusal(session, "tell", word=1) == "input_validation"
            wrong = session.call_tool("tell", {"word": "no"})
            assert (wrong.blocks[0].text, wrong.reward, wrong.finished) == ("wrong", 0.0, False)
            right = session.call_tool("tell", {"word": "world"})
            assert (right.blocks[0].text, right.reward, right.finished) == ("right", 1.0, True)
            assert refusal(session, "tell", word="world") == "episode_finished"
        riddle.wait_for_sessions(0)

    def test_plays_echo(self, serve: Serve, connect: Connect) -> None:
        server = serve(EchoEnvironment, EchoAction, EchoObservation, env_name="echo_env")
        env = connect(server.url)
        assert env.num_tasks("train") > 1
        with env.session(split="train", index=0) as session:
            assert "Echo environment ready!" in prompt_of(session)
            required = {tool.name: tool.input_schema["required"] for tool in session.list_tools()}
            assert required["echo"] == ["message"]
            output = session.call_tool("echo", {"message": "hello"})
            assert (output.reward, output.finished, output.metadata["step"]) == (0.5, False, 1)
            assert '"echoed_message":"hello"' in output.blocks[0].text

    def test_wins_wordle(self, serve: Serve, connect: Connect) -> None:
        server = serve(WordleEnvironment, WordleAction, WordleObservation, env_name="wordle_env")
        env = connect(server.url)
        assert env.get_task("train", 3).task_spec == {"seed": 3}
        with env.session(split="train", index=3) as session:
            assert "guess" in prompt_of(session).lower()
            assert [tool.name for tool in session.list_tools()] == ["wordle"]
            assert refusal(session, "wordle", word="zzzzz") == "input_validation"
            secret = word_list(5).secret(3)
            output = session.call_tool("wordle", {"word": secret})
            assert (output.reward, output.finished) == (1.0, True)

    def test_loses_wordle(self, serve: Serve, connect: Connect) -> None:
        server = serve(WordleEnvironment, WordleAction, WordleObservation, env_name="wordle_env")
        words = sorted(word_list(5).guesses - {word_list(5).secret(3)})[:MAX_GUESSES]
        with connect(server.url).session(split="train", index=3) as session:
            outputs = [session.call_tool("wordle", {"word": word}) for word in words]
            assert [output.finished for output in outputs] == [False] * (MAX_GUESSES - 1) + [True]
            assert {output.reward for output in outputs} == {0.0}

    def test_is_told_of_a_session_that_has_ended(self, serve: Serve, connect: Connect) -> None:
        config = ConcurrencyConfig(max_concurrent_envs=1, session_timeout=0.1)
        server = serve(
            RiddleEnvironment, CallToolAction, CallToolObservation, max_concurrent_envs=None, concurrency_config=config
        )
        with connect(server.url).session(split="train", index=0) as session:
            server.wait_for_sessions(0)  # it pings every 10 s
            with pytest.raises(SessionTerminatedError):
                session.call_tool("told", {})

    def test_is_told_that_every_place_is_taken(self, serve: Serve, connect: Connect) -> None:
        server = serve(RiddleEnvironment, CallToolAction, CallToolObservation, max_concurrent_envs=1)
        env = connect(server.url)
        with env.session(split="train", index=0), pytest.raises(aiohttp.ClientResponseError) as caught:
            env.session(split="train", index=0).__enter__()
        assert (caught.value.status, "Server at capacity: 1/1" in caught.value.message) == (503, True)

    def test_shows_its_key(self, serve: Serve, connect: Connect) -> None:
        server = serve(RiddleEnvironment, CallToolAction, CallToolObservation, token="secret-token")
        with connect(server.url, key="secret-token").session(split="train", index=0) as session:
            assert prompt_of(session) == "Tell me hello."


class TestTrl:
    def test_its_specification_plays_our_environment(
        self, riddle: RunningServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        point_at(riddle.url, monkeypatch)
        spec = OpenRewardSpec(riddle.url, env_name="riddle")
        assert spec.train_dataset.column_names == ["prompt", "task_index", "word"]
        rollouts: list[Any] = [spec.environment_factory() for _ in range(4)]
        for row, env in zip([*spec.train_dataset] * 2, rollouts, strict=True):
            assert env.reset(**row) == f"Tell me {row['word']}."
        for env, word in zip(rollouts, ["hello", "hello", "hello", "world"], strict=True):
            assert env.tell(word="no") == "wrong"
            assert env.tell(word=word) in ("right", "wrong")
        assert spec.reward_funcs(rollouts) == [1.0, 0.0, 1.0, 1.0]
        assert [env.finished for env in rollouts] == [True, False, True, True]
        assert rollouts[0].tell(word="hello").startswith("Error: episode_finished")
        assert rollouts[1].tell(word=5).startswith("Error: input_validation")
        assert rollouts[1].reset(task_index=0) == "Tell me hello."
        for env in rollouts:
            env._close()
        spec._sdk_client.close()
        riddle.wait_for_sessions(0)

    def test_its_specification_plays_wordle(self, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
        server = serve(WordleEnvironment, WordleAction, WordleObservation, env_name="wordle_env")
        point_at(server.url, monkeypatch)
        spec = OpenRewardSpec(server.url, env_name="wordle_env", num_tasks=3)
        assert spec.train_dataset["seed"] == [0, 1, 2]
        env: Any = spec.environment_factory()
        for row in spec.train_dataset:
            env.reset(**row)
            env.wordle(word=word_list(5).secret(row["seed"]))
            assert (env.reward, env.finished) == (1.0, True)
        env._close()
        spec._sdk_client.close()


REQUESTS: list[tuple[str, str, Any]] = [
    ("GET", "/splits", None),
    ("POST", "/tasks", {"split": "train"}),
    ("POST", "/tasks", {"split": "nope"}),
    ("POST", "/tasks", {}),
    ("POST", "/num_tasks", {"split": "test"}),
    ("POST", "/num_tasks", {"split": "nope"}),
    ("POST", "/task", {"split": "train", "index": 1}),
    ("POST", "/task", {"split": "train", "index": 2}),
    ("POST", "/task", {"split": "nope", "index": 1}),
    ("POST", "/task_range", {"split": "train"}),
    ("POST", "/task_range", {"split": "train", "start": -1}),
    ("POST", "/task_range", {"split": "train", "start": 1, "stop": 9}),
    ("POST", "/riddle/task", {"split": "train", "index": 0}),
    ("GET", "/prompt", None),
    ("POST", "/ping", None),
    ("POST", "/call", {"name": "tell", "input": {"word": "x"}}),
    ("POST", "/delete", None),
    ("POST", "/create", {}),
    ("POST", "/create", {"split": "train"}),
    ("POST", "/create", {"split": "train", "index": 5}),
    ("POST", "/create", {"split": "nope", "index": 0}),
    ("POST", "/create", {"task_spec": {}, "env_name": "other"}),
    ("POST", "/create", {"split": "train", "index": 1}),
    ("POST", "/create", {"split": "train", "index": 1}),
    ("POST", "/ping", None),
    ("GET", "/prompt", None),
    ("GET", "/messages", None),
    ("GET", "/riddle/prompt", None),
    ("POST", "/call", {"name": "tell"}),
    ("POST", "/call", {"name": "tell", "input": []}),
    ("POST", "/delete", None),
    ("POST", "/delete_session", None),
    ("POST", "/create", {"task_spec": {"word": "mine"}, "env_name": "RIDDLE"}),
    ("GET", "/prompt", None),
]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("tell", {"word": "no"}),
    ("shout", {}),
    ("tell", {}),
    ("tell", {"word": 1}),
    ("tell", {"word": "world"}),
    ("tell", {"word": "world"}),
]


class TwoSplitsEnvironment(RiddleEnvironment):
    """The riddle as the program serves it."""

    def list_splits(self) -> list[str]:
        return ["train", "test"]

    def list_tasks(self, split: str) -> list[dict[str, str]]:
        return [{"word": "other"}] if split == "test" else super().list_tasks(split)


def answers(server: Any) -> Iterator[tuple[str, int, Any]]:
    """Make every request, and give what comes but for the sentences of errors."""
    with OrsWire(server) as wire:
        for method, path, body in REQUESTS:
            response = wire.http.request(method, path, json=body)
            answer = response.json()
            if response.status_code == 422:
                answer = sorted(str(fault["loc"]) for fault in answer["detail"])
            yield f"{method} {path} {body}", response.status_code, {"sid": "s"} if "sid" in answer else answer
    with OrsWire(server) as wire:
        wire.begin(split="train", index=1)
        for name, arguments in CALLS:
            result = wire.call(name, **arguments)
            result.pop("error", None)
            yield f"{name} {arguments}", 200, result


class SdkServer:
    """A server in another process, as far as the wire asks."""

    def __init__(self, server: ServerProcess) -> None:
        self.http = partial(RunningServer.http, server)  # type: ignore[arg-type]  # which has the url that it needs


def test_every_answer_is_the_one_of_the_sdks_own_server(serve: Serve, sdk_server: ServerProcess) -> None:
    ours = serve(TwoSplitsEnvironment, CallToolAction, CallToolObservation, env_name="riddle")
    theirs = list(answers(SdkServer(sdk_server)))
    assert len(theirs) == len(REQUESTS) + len(CALLS)
    assert list(answers(ours)) == theirs
