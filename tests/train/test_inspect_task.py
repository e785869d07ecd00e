"""Environments as a task of Inspect, as its own command runs it, with a model behind an address."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.util import registry_info
from tests.support.environments.training import CRASHING_SEEDS, Climb, Stairs, StairsEnvironment
from tests.support.models.malformed_answers import MALFORMED
from tests.support.models.model_server import Answer, ScriptedModel
from tests.support.servers import RunningServer

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import ConfigurationError
from openenv.train.inspect_task import play
from openenv.train.tasks.seeds import evaluation_seeds

ROOT = Path(__file__).parents[2]
ENTRY_POINTS = {"openenv": "openenv.train.inspect_task"}
SEEDS = [0, 1, 2, 3, CRASHING_SEEDS + 2]


HIGH = {"seed": 0, "height": 5}
"""A task whose model's server has a fault."""


def climb(messages: Sequence[Mapping[str, Any]]) -> Answer:
    """Nap, try to fly, climb; and give up on stairs with four steps. Those with two or five have malformed answers."""
    said = [message for message in messages if message["role"] == "assistant"]
    if "of 5" in str(messages[1]["content"]):
        return MALFORMED["null choices"]
    if "of 2" in str(messages[1]["content"]) and not said:
        return next(ODD, ("climb", {"move": "fall asleep"}))
    if not said:
        return "climb", {"move": "fall asleep"}
    if len(said) == 1:
        return "fly", {"move": "up"}
    return "I give up." if "of 4" in str(messages[1]["content"]) else ("climb", {"move": "up"})


ODD = iter([MALFORMED[name] for name in ("HTML", "a call without a name")])
"""Answers before the first one that can be read."""


def install(folder: Path) -> Path:
    """Install the package as a wheel does. Inspect tells by the path whose task it is, and here it is editable."""
    site = folder / "site-packages"
    about = site / "openenv_core-1.dist-info"
    about.mkdir(parents=True)
    (site / "openenv").symlink_to(ROOT / "src" / "openenv")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: openenv-core\nVersion: 1\n")
    lines = [f"{name} = {module}" for name, module in ENTRY_POINTS.items()]
    (about / "entry_points.txt").write_text("\n".join(["[inspect_ai]", *lines, ""]))
    return site


def test_the_package_tells_inspect_of_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["inspect_ai"] == ENTRY_POINTS


def test_its_name_is_the_same_in_an_editable_installation() -> None:
    assert registry_info(play).name == "openenv/play"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Inspect's log of two epochs, with as many sessions as samples at once.

    It runs in a process of its own, since it leaves streams open in its last one.
    """
    with RunningServer(create_fastapi_app(StairsEnvironment, Climb, Stairs, max_concurrent_envs=2)) as server:
        yield run_inspect(
            server, tmp_path_factory.mktemp("inspect"), climb, [*({"seed": seed} for seed in SEEDS), HIGH]
        )[0]


def run_inspect(
    server: RunningServer,
    folder: Path,
    answer: Callable[[Sequence[Mapping[str, Any]]], Answer],
    tasks: Sequence[Mapping[str, Any]],
    **more: Any,
) -> tuple[dict[str, Any], str]:
    """Return Inspect's log, and what it has shown."""
    (folder / "tasks.jsonl").write_text("\n".join(map(json.dumps, tasks)))
    given = {
        "environment": server.url,
        "tasks": folder / "tasks.jsonl",
        "system_prompt": "Climb.",
        "success_reward": 0.75,
        "sessions": 2,
        "reset": "{height: null}",
        "max_turns": 5,
        **more,
    }
    options = [part for name, value in given.items() for part in ("-T", f"{name}={value}")]
    model = ScriptedModel(answer)
    command = [sys.executable, "-m", "inspect_ai", "eval", "openenv/play", "--model", "openai-api/local/climber"]
    settings = [
        "--max-samples",
        "2",
        "--epochs",
        "2",
        "--display",
        "plain",
        "--log-format",
        "json",
        "--log-dir",
        "logs",
    ]
    with model.server:
        shown = subprocess.run(
            [*command, *settings, *options],
            env={
                **os.environ,
                "PYTHONPATH": str(install(folder)),
                "LOCAL_BASE_URL": model.url,
                "LOCAL_API_KEY": "none",
            },
            capture_output=True,
            text=True,
            timeout=200,
            cwd=folder,
        )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    (file,) = (folder / "logs").glob("*.json")
    server.wait_for_sessions(0)
    read: dict[str, Any] = json.loads(file.read_text())
    return read, " ".join((shown.stdout + shown.stderr).split())


def samples(log: dict[str, Any], number: int) -> list[dict[str, Any]]:
    return [sample for sample in log["samples"] if sample["id"] == number]


def test_every_sample_is_an_episode(log: dict[str, Any]) -> None:
    assert log["status"] == "success"
    expected = {1: (0.25, 0.0), 2: (0.75, 1.0), 3: (1.5, 1.0), 4: (0.0, 0.0)}
    for number, (reward, success) in expected.items():
        scores = [sample["scores"]["environment_reward"]["value"] for sample in samples(log, number)]
        assert scores == [{"reward": reward, "success": success, "illegal_actions": 2, "no_calls": 0.0}] * 2
    means = {score["name"]: score["metrics"]["mean"]["value"] for score in log["results"]["scores"]}
    assert means == {"reward": pytest.approx(2.5 / 4), "success": 0.5, "illegal_actions": 2.0, "no_calls": 0.0}
    assert log["eval"]["metadata"]["illegal_answers"] == "none is played"


def test_the_conversation_is_the_episode(log: dict[str, Any]) -> None:
    sample = samples(log, 1)[0]
    assert sample["metadata"]["task"] == {"height": None, "seed": 0}
    said = [(message["role"], message["content"]) for message in sample["messages"]]
    assert said[0] == ("system", "Climb.")
    assert said[1][0] == "user"
    assert re.fullmatch(r"You act in the environment StairsEnvironment\. .*\n\nstep of 1", said[1][1])
    assert [role for role, _ in said[2:]] == ["assistant", "tool"] * 3
    assert said[3] == ("tool", "No sleeping on the stairs.")
    assert said[5][1].startswith("There is no tool 'fly'")
    assert said[7] == ("tool", "step and of 1")
    assert sample["metadata"]["episode"] == {
        "reward": 0.25,
        "rewards": [0.0, 0.0, 0.25],
        "length": 3,
        "illegal_actions": 2,
        "illegal_texts": {'climb {"move": "fall asleep"}': 1, 'fly {"move": "up"}': 1},
        "cut_answers": 0,
        "answers_without_call": 0,
        "done": True,
        "cut_by": None,
    }


NONSENSE: dict[str, Answer] = {"of 1": "I like bananas.", "of 2": ("fly", {"move": "up"}), "of 3": ("climb", {})}
"""The answers of three models that play nothing, by the stairs that each stands before."""


def nonsense(messages: Sequence[Mapping[str, Any]]) -> Answer:
    return next(answer for stairs, answer in NONSENSE.items() if stairs in str(messages[1]["content"]))


@pytest.mark.parametrize(
    ("rule", "rewards", "lengths", "words"),
    [
        ("penalty", [0.0, -1.5, -1.5], [0, 3, 3], "each costs 0.5, and none is played"),
        ("end", [0.0, 0.0, 0.0], [0, 1, 1], "each ends its episode"),
    ],
)
def test_models_that_answer_nonsense_are_counted_and_warned_of(
    stairs_server: RunningServer, tmp_path: Path, rule: str, rewards: list[float], lengths: list[int], words: str
) -> None:
    settings = {"illegal_answers": rule, "illegal_penalty": 0.5, "max_turns": 3}
    log, shown = run_inspect(stairs_server, tmp_path, nonsense, [{"seed": seed} for seed in range(3)], **settings)
    episodes = [samples(log, number)[0]["metadata"]["episode"] for number in (1, 2, 3)]
    assert [episode["reward"] for episode in episodes] == rewards
    assert (
        [episode["length"] for episode in episodes] == [episode["illegal_actions"] for episode in episodes] == lengths
    )
    assert [episode["answers_without_call"] for episode in episodes] == [1, 0, 0]
    assert [episode["cut_by"] for episode in episodes[1:]] == ["illegal_answers" if rule == "end" else "max_turns"] * 2
    means = {score["name"]: score["metrics"]["mean"]["value"] for score in log["results"]["scores"]}
    assert means["illegal_actions"] == pytest.approx(sum(lengths) / 3)
    assert means["no_calls"] == pytest.approx(1 / 3)
    assert log["eval"]["metadata"]["illegal_answers"] == words
    share = 2 * sum(lengths) / (2 * sum(lengths) + 2)
    assert f"warning {share:.0%} of the answers were no legal action, most often 'fly {{" in shown
    assert "warning In 33% of the episodes the model called no tool at all" in shown


def test_a_failing_environment_is_an_error_of_its_sample(log: dict[str, Any]) -> None:
    for sample in samples(log, SEEDS.index(CRASHING_SEEDS + 2) + 1):
        assert "ServerExecutionError" in sample["error"]["traceback"]
        assert not sample.get("scores")


def test_answers_that_are_none_are_an_error_of_their_sample(log: dict[str, Any]) -> None:
    for sample in samples(log, len(SEEDS) + 1):
        assert "local/climber gave no answer that can be read, at attempt 3: " in sample["error"]["message"]
        assert not sample.get("scores")


def test_an_episode_is_cut_off(log: dict[str, Any]) -> None:
    """After five turns, of which two did nothing, the third step of the longest stairs is the last."""
    assert all(len(sample["metadata"]["episode"]["rewards"]) <= 5 for sample in samples(log, 3))
    assert [sample["metadata"]["episode"]["done"] for sample in samples(log, 3)] == [True, True]


def test_seeds_are_those_that_no_training_has() -> None:
    dataset = play("http://127.0.0.1:9", tasks=50, num_tasks=3).dataset
    assert [(sample.metadata or {})["task"] for sample in dataset] == [
        {"seed": seed} for seed in evaluation_seeds(1, 3)
    ]


def test_resets_are_passed_more_under_the_tasks_own(stairs_server: RunningServer, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"seed": 1}\n{"seed": 2, "height": 2}\n')
    dataset = play(stairs_server.url, tasks=str(tasks), reset={"height": 3}).dataset
    assert [(sample.metadata or {})["task"] for sample in dataset] == [
        {"height": 3, "seed": 1},
        {"height": 2, "seed": 2},
    ]
    with pytest.raises(ConfigurationError, match=r"Expected 3 tasks in .*; there are 2"):
        play(stairs_server.url, tasks=str(tasks), num_tasks=3)


@pytest.mark.parametrize(("tasks", "num_tasks"), [(0, None), (5, 0), (5, -1)])
def test_no_task_is_refused(tasks: int, num_tasks: int | None) -> None:
    with pytest.raises(ConfigurationError, match=r"tasks to be 1 or more, got (0|-1)\."):
        play("http://127.0.0.1:9", tasks=tasks, num_tasks=num_tasks)
