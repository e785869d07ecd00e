"""``openenv env`` shows and checks the environments of a dataset; ``openenv run`` plays their tasks."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.dataset_folders import ENVIRONMENT_YAML, ROWS, dataset_folder
from tests.support.environments.training import Climb, Stairs, StairsEnvironment
from tests.support.servers import RunningServer

from openenv.core.env_server.app import create_fastapi_app


def test_an_environment_is_shown(openenv_here: Any, tmp_path: Path) -> None:
    folder = dataset_folder(tmp_path / "repo")
    shown = openenv_here("env", "inspect", folder).stdout
    assert [line.split(maxsplit=1) for line in shown.splitlines()] == [
        ["reference", f"{folder}/words"],
        ["title", "Short words"],
        ["runs", "package wordle"],
        ["openenv", ">=0.3.0"],
        ["resources", "cpus 1.0"],
        ["frameworks", "openenv"],
        ["tasks", "train 2, test 1"],
    ]
    (described,) = json.loads(openenv_here("env", "inspect", f"{folder}/words", "--json").stdout)
    assert described["tasks"] == {"train": 2, "test": 1}


def test_an_environment_is_checked(openenv_here: Any, tmp_path: Path) -> None:
    folder = dataset_folder(tmp_path / "repo")
    assert openenv_here("env", "validate", folder / "environment.yaml").returncode == 0
    dataset_folder(folder, rows={**ROWS, "test": ROWS["train"][:1]})
    ended = openenv_here("env", "validate", folder)
    assert (ended.returncode, ended.stdout.count("fail  ")) == (1, 1)
    assert "have the same id 'a'" in ended.stdout
    dataset_folder(folder, ENVIRONMENT_YAML.replace("id: words", "name: words"))
    for command in ("inspect", "validate"):
        ended = openenv_here("env", command, folder)
        assert (ended.returncode, "`environments.0.id`: Field required" in ended.stderr) == (2, True)
    assert "takes a dataset's environment; wordle is a name" in openenv_here("env", "inspect", "wordle").stderr


@pytest.mark.level("process")  # it starts a server
def test_the_tasks_of_a_split_are_played(openenv_here: Any, tmp_path: Path) -> None:
    folder = dataset_folder(tmp_path / "repo")
    ended = openenv_here("run", folder, "--split", "train", "--output", "played", "--json")
    assert ended.returncode == 0, ended.stderr
    results = json.loads(ended.stdout)
    assert [task["task"] for task in results["tasks"]] == [{"word_length": 4, "seed": 1}, {"word_length": 6, "seed": 2}]
    ended = openenv_here("eval", "wordle", "--tasks", f"{folder}/words?split=test", "--output", "again", "--json")
    assert [task["task"] for task in json.loads(ended.stdout)["tasks"]] == [{"word_length": 5, "seed": 3}]


@pytest.mark.parametrize("runtime", ["image: words:1", "space_id: ada/none-such", "package: openenv-none-such"])
def test_the_tasks_are_played_at_a_server_that_runs_without_trust(
    openenv_here: Any, tmp_path: Path, runtime: str
) -> None:
    text = ENVIRONMENT_YAML.replace("package: wordle", runtime)
    folder = dataset_folder(tmp_path / "repo", text, rows={"train": [{"seed": 1}], "test": [{"seed": 2}]})
    with RunningServer(create_fastapi_app(StairsEnvironment, Climb, Stairs)) as server:
        ended = openenv_here("run", folder, "--split", "test", "--base-url", server.url, "--player", "random", "--json")
    assert ended.returncode == 0, ended.stderr
    assert [task["task"] for task in json.loads(ended.stdout)["tasks"]] == [{"seed": 2}]


def test_what_can_not_be_run(openenv_here: Any, tmp_path: Path) -> None:
    folder = dataset_folder(tmp_path / "repo")
    ended = openenv_here("run", folder, "--split", "tst")
    assert (ended.returncode, "has no split 'tst' (did you mean 'test'?)" in ended.stderr) == (2, True)
    assert (
        "Expected --split with an environment of a dataset, got wordle"
        in openenv_here("run", "wordle", "--split", "test").stderr
    )
    dataset_folder(folder, ENVIRONMENT_YAML.replace("package: wordle", "image: words:1"))
    assert "--trust-remote-code" in openenv_here("run", folder).stderr
