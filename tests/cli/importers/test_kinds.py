"""Kinds of new environments: each validates, passes its own tests and plays; what can't be one is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from tests.support.environment_folders import write_files

import openenv
from openenv.auto.manifest import load_manifest
from openenv.auto.package import EnvironmentPackage
from openenv.cli.importers.kinds import TOOLS, EnvironmentKind, kind_around, kind_of_tasks
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError
from openenv.hub.staging import missing_files
from openenv.validation import validate_folder
from openenv.validation.code_checks import offers_only_tools
from openenv.validation.policy import OWN_POLICY, failing, load_policy
from openenv.validation.source import read_source

ROWS = [
    {"question": "Which is the capital of Spain?", "answer": "Madrid", "split": "train", "level": 1},
    {"question": "How much is 2 + 2?", "answer": 4, "split": "train", "level": 2},
    {"question": "Which is the capital of Kenya?", "answer": "Nairobi", "split": "test", "level": 1},
]
KINDS = ["environment", "tools", "tasks", "wrapped"]


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A new environment of each kind, ``KIND_env``."""
    parent = tmp_path_factory.mktemp("kinds")
    (parent / "rows.jsonl").write_text(lines(ROWS))
    kinds = [
        EnvironmentKind(),
        TOOLS,
        kind_of_tasks(parent / "rows.jsonl"),
        kind_around("gymnasium:FrozenLake-v1?is_slippery=false"),
    ]
    for name, kind in zip(KINDS, kinds, strict=True):
        assert kind.templates == name
        kind.write(f"{name}_env", parent / f"{name}_env")
    return {name: parent / f"{name}_env" for name in KINDS}


@pytest.mark.level("process")
@pytest.mark.parametrize("kind", KINDS)
def test_its_own_tests_pass(folders: dict[str, Path], kind: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    tested = subprocess.run(command, cwd=folders[kind], env=os.environ, capture_output=True, text=True, timeout=270)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert " passed" in tested.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_it_validates_can_be_published_and_is_described_by_its_readme(folders: dict[str, Path], kind: str) -> None:
    report = validate_folder(folders[kind])
    assert [(each.check_id, each.evidence) for each in failing(report.results, load_policy(OWN_POLICY))] == []
    source = read_source(folders[kind])
    assert missing_files(folders[kind], with_client=not offers_only_tools(source)) == []
    description = load_manifest(folders[kind]).description
    assert description.endswith(".")
    assert description in " ".join((folders[kind] / "README.md").read_text().split())


@pytest.mark.parametrize("kind", KINDS)
def test_no_placeholder_is_left(folders: dict[str, Path], kind: str) -> None:
    for file in folders[kind].rglob("*"):
        if file.is_file() and file.name != "Dockerfile" and "__pycache__" not in file.parts:
            assert "$" not in file.read_text(), file


@pytest.mark.parametrize("kind", ["environment", "tools", "tasks"])
def test_its_player_gets_the_whole_reward(folders: dict[str, Path], kind: str) -> None:
    package = EnvironmentPackage.from_folder(folders[kind])
    choose = package.make_player(seed=1)
    assert choose is not None
    with openenv.make(folders[kind]).sync() as client:
        result = client.reset(seed=1)
        while not result.done:
            result = client.step(choose(result.observation))
    assert result.reward == 1.0


def test_tasks_are_those_of_the_file_by_their_splits(folders: dict[str, Path]) -> None:
    with openenv.make(folders["tasks"]).sync() as client:
        counts = {split: len(client.tasks(split)) for split in ("train", "test")}
        assert counts == {"train": 2, "test": 1}
        assert client.reset(split="test", index=0).observation.question == "Which is the capital of Kenya?"
        result = client.step(client.async_client.action_class(answer=" nairobi. "))
        assert (result.reward, result.reward_weights) == (1.0, {"correct": 0.9, "brief": 0.1})
        client.reset(split="train", index=1)
        assert client.step(client.async_client.action_class(answer="it is 4")).reward == 0.0
    assert "2 in `train`, 1 in `test`" in (folders["tasks"] / "README.md").read_text()


@pytest.mark.parametrize(
    ("rows", "question", "answer"),
    [
        ([{"Prompt": "a?", "solution": "b"}], "Prompt", "solution"),
        (
            [{"id": 1, "target": 2, "problem": "a?"}, {"id": 2, "target": 3, "problem": "b?", "text": "c"}],
            "problem",
            "target",
        ),
        ([{"label": "x", "text": "a", "question": None}], "text", "label"),
    ],
)
def test_columns_are_found_by_their_names(
    tmp_path: Path, rows: list[dict[str, Any]], question: str, answer: str
) -> None:
    (tmp_path / "rows.jsonl").write_text(lines(rows))
    kind = kind_of_tasks(tmp_path / "rows.jsonl")
    assert [json.loads(kind.values[f"{role}_column"]) for role in ("question", "answer")] == [question, answer]


def test_a_table_needs_its_reader(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS[:1]), tmp_path / "rows.parquet")
    kind = kind_of_tasks(tmp_path / "rows.parquet")
    kind.write("table_env", tmp_path / "table_env")
    assert "pyarrow" in (tmp_path / "table_env" / "server" / "requirements.txt").read_text().splitlines()
    assert "pyarrow" in (tmp_path / "table_env" / "pyproject.toml").read_text()
    assert (tmp_path / "table_env" / "server" / "tasks.parquet").is_file()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expected at least one task"),
        (lines([{"question": "a"}]), "no column for the answer. Expected .* every row has question"),
        (lines([{"answer": "a", "body": "b"}]), "no column for the question"),
        (lines([{"question": "a", "answer": "b"}, {"question": "c"}]), "no column for the answer"),
        ("{", "can't be read"),
        ("[1]", "a task is an object"),
    ],
)
def test_a_file_that_has_no_questions_and_answers_is_refused(tmp_path: Path, text: str, said: str) -> None:
    write_files(tmp_path, {"rows.jsonl": text})
    with pytest.raises(ConfigurationError, match=said):
        kind_of_tasks(tmp_path / "rows.jsonl")


@pytest.mark.parametrize(
    ("target", "error", "said"),
    [
        ("CartPole-v1", ConfigurationError, "Expected gymnasium:ID, as in gymnasium:CartPole-v1, got 'CartPole-v1'"),
        ("gymnasium:", ConfigurationError, "Expected gymnasium:ID"),
        ("openspiel:catch", ConfigurationError, "Expected gymnasium:ID"),
        ("gymnasium:CartPol-v1", EnvironmentNotFoundError, "Did you mean CartPole-v1"),
    ],
)
def test_what_can_not_be_wrapped_is_refused(target: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        kind_around(target)


def test_the_package_that_brings_a_wrapped_environment_is_required() -> None:
    class OwnPole(CartPoleEnv):
        """As one of an installed package."""

    OwnPole.__module__ = "yaml.poles"
    gymnasium.register("OwnPole-v0", entry_point=OwnPole)  # type: ignore[arg-type]  # its options have defaults
    try:
        requirements = kind_around("gymnasium:OwnPole-v0").values["requirements"].splitlines()
    finally:
        gymnasium.registry.pop("OwnPole-v0")
    assert requirements == [f"openenv-core[gymnasium]>={openenv.__version__}", "PyYAML"]
