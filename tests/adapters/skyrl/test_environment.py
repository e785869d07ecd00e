"""SkyRL-Gym's environments served, beside the same ones in this process."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import skyrl_gym
from omegaconf import OmegaConf
from tests.support.environments.skyrl import Countdown
from tests.support.servers import RunningServer

from openenv import GenericEnvClient
from openenv.adapters.skyrl import ReplyAction, SkyRLEnvironment, environment_for
from openenv.adapters.targets import find_adapted
from openenv.core.exceptions import (
    InvalidRequestError,
    RequestRejectedError,
    ResetNeededError,
    ServerExecutionError,
    TaskNotFoundError,
)

COUNTDOWN = "tests.support.environments.skyrl:countdown"
PLATE = "tests.support.environments.skyrl:plate"
PROMPT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2 + 2?"}]
ROWS: list[dict[str, Any]] = [
    {"prompt": PROMPT, "reward_spec": {"ground_truth": "4"}, "extra_info": {"max_turns": 3}, "data_source": "mine"},
    {"prompt": "What is 3 + 3?", "reward_spec": {"ground_truth": "6"}, "extra_info": {"max_turns": 2}},
]


def served(env_id: str) -> RunningServer:
    return RunningServer(find_adapted(f"skyrl:{env_id}").app())


def play_both(client: Any, theirs: Any, task: dict[str, Any], replies: list[str]) -> None:
    """Play a task on both, and compare what each shows."""
    messages, metadata = theirs.init(task["prompt"])
    seen = client.reset(**task)
    assert (seen.observation["messages"], seen.metadata or {}) == (messages, metadata)
    for reply in replies:
        expected, seen = theirs.step(reply), client.step({"text": reply})
        assert seen.observation["messages"] == expected["observations"]
        assert (seen.reward, seen.done) == (expected["reward"], expected["done"])
        assert (seen.metadata or {}) == expected["metadata"]
        assert seen.observation["postprocessed_action"] == expected.get("postprocessed_action")
        assert client.state()["metrics"] == theirs.get_metrics()
        if seen.done:
            return
    raise AssertionError("expected the episode to end")


@pytest.mark.parametrize(
    ("env_id", "replies"),
    [
        ("gsm8k", ["#### 4"]),
        ("gsm8k", ["4"]),
        ("gsm8k_multi_turn", ["#### 5", "no idea", "#### 4"]),
        ("gsm8k_multi_turn", ["#### 5", "5", "\x00 '''"]),
    ],
)
def test_the_wire_changes_nothing(env_id: str, replies: list[str]) -> None:
    task = ROWS[0]
    extras = {name: value for name, value in task.items() if name != "prompt"}
    theirs = skyrl_gym.make(env_id, env_config=OmegaConf.create({}), extras=extras)
    with served(env_id) as server, GenericEnvClient(base_url=server.url).sync() as client:
        play_both(client, theirs, task, replies)


def test_aime_scores_alike() -> None:
    task = {"prompt": PROMPT, "reward_model": {"ground_truth": "4"}}
    theirs = skyrl_gym.make("aime", extras={"reward_model": {"ground_truth": "4"}})
    with served("aime") as server, GenericEnvClient(base_url=server.url).sync() as client:
        for reply in ("Answer: 4", "Answer: 5", "none"):
            theirs.init(PROMPT)
            expected = theirs.step(reply)
            client.reset(**task)
            seen = client.step({"text": reply})
            assert (seen.reward, seen.metadata) == (expected["reward"], expected["metadata"])


def test_settings_tasks_and_metrics_of_ones_own() -> None:
    theirs = Countdown(OmegaConf.create({"step_by": 2}), {"start": 5})
    with served(f"{COUNTDOWN}?step_by=2") as server, GenericEnvClient(base_url=server.url).sync() as client:
        play_both(client, theirs, {"prompt": PROMPT, "start": 5}, [" a ", "b", "c"])


def test_a_file_lists_the_tasks(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    with served(f"gsm8k?tasks={path}") as server, GenericEnvClient(base_url=server.url).sync() as client:
        with server.http() as http:
            assert http.get("/list_environments").json() == ["skyrl:gsm8k"]
            assert http.post("/skyrl:gsm8k/num_tasks", json={"split": "train"}).json() == {"num_tasks": 2}
        for index, row in enumerate(ROWS):
            first = client.reset(seed=index)
            assert first.observation["text"].endswith("?")
            assert client.state()["index"] == index
            assert client.step({"text": f"#### {row['reward_spec']['ground_truth']}"}).reward == 1.0
        with pytest.raises(RequestRejectedError, match="Expected an index from 0 to 1 in the split train, got 2"):
            client.reset(index=2)
        with pytest.raises(RequestRejectedError, match=r"no split 'test'\. It has: train"):
            client.reset(split="test")


def test_solutions_are_not_listed_with_the_tasks(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    env = environment_for(f"gsm8k?tasks={path}")()
    assert env.list_tasks("train") == [{"split": "train", "index": 0}, {"split": "train", "index": 1}]
    assert env.get_task("train", 1) == env.get_task_range("train", 1)[0] == {"split": "train", "index": 1}


def test_an_environment_that_changes_its_task_changes_nobody_elses(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"prompt": "Eat.", "plate": ["apple"]}]), encoding="utf-8")
    make = environment_for(f"{PLATE}?tasks={path}")
    one, other = make(), make()
    assert one.reset(index=0).text.endswith("apple")
    assert other.reset(index=0).text.endswith("apple")


def test_max_turns_may_be_said_for_all_tasks(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"test": ROWS}), encoding="utf-8")
    env = environment_for(f"gsm8k_multi_turn?tasks={path}&max_turns=1")()
    env.reset(index=0)
    assert (env.list_splits(), env.num_tasks("test")) == (["test"], 2)
    assert env.step(ReplyAction(text="no idea")).done is True


def test_what_a_task_lacks_is_said() -> None:
    env = SkyRLEnvironment("gsm8k")
    with pytest.raises(InvalidRequestError, match=r"pass prompt=\.\.\..*skyrl:gsm8k\?tasks="):
        env.reset(seed=1)
    with pytest.raises(InvalidRequestError, match="reward_spec field is required"):
        env.reset(prompt="2 + 2?")
    with pytest.raises(InvalidRequestError, match="expected a prompt to be a text or messages like"):
        env.reset(prompt=[{"text": "2 + 2?"}])
    with pytest.raises(ResetNeededError, match="there is no conversation"):
        env.step(ReplyAction(text="4"))
    with pytest.raises(TaskNotFoundError):
        env.get_task("train", 0)


def test_an_environment_that_fails_says_so_and_goes_on() -> None:
    with served(COUNTDOWN) as server, GenericEnvClient(base_url=server.url).sync() as client:
        client.reset(prompt="Go.", start=2)
        with pytest.raises(ServerExecutionError, match="failed on purpose"):
            client.step({"text": "fail"})
        assert client.step({"text": "go"}).observation["text"] == "1 left"


def test_each_is_closed_once() -> None:
    Countdown.closed.clear()
    env = SkyRLEnvironment("countdown")
    env.reset(prompt="Go.", start=2)
    env.reset(prompt="Go.", start=3)
    env.close()
    env.close()
    assert Countdown.closed == [2, 3]


def test_a_copy_goes_on_alike() -> None:
    env = SkyRLEnvironment("countdown")
    env.reset(prompt="Go.", start=3)
    env.step(ReplyAction(text="a"))
    twin = copy.deepcopy(env)
    assert env.step(ReplyAction(text="b")) == twin.step(ReplyAction(text="b"))
    assert env.state == twin.state
