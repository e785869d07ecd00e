"""``openenv tasks``."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.dataset_folders import environment_with_rows
from tests.support.environments.tasked import ListingEnvironment
from tests.support.servers import RunningServer

from openenv.core.env_server.app import create_fastapi_app

ENVIRONMENT = '''
from openenv import Action, Environment, Observation, State, TaskSet


class Question(Observation):
    text: str


class Answer(Action):
    name: str


class CapitalEnvironment(Environment[Answer, Question, State]):
    """Name the capital of a country."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    tasks = TaskSet("capitals.csv")

    def reset(self, country: str, capital: str, hint: bool = False) -> Question:
        self.capital = capital
        return Question(text=country)

    def step(self, action: Answer) -> Question:
        return Question(text="", reward=float(action.name == self.capital), done=True)

    @property
    def state(self) -> State:
        return State()
'''
CAPITALS = "split,country,capital,difficulty\n,France,Paris,0.1\n,Italy,Rome,0.2\ntest,Kenya,Nairobi,0.6\n"


@pytest.fixture
def capitals(tmp_path: Path) -> Path:
    """Write an environment in a file, with a file of tasks beside it, and return the first."""
    (tmp_path / "capitals.csv").write_text(CAPITALS)
    file = tmp_path / "capitals_game.py"
    file.write_text(ENVIRONMENT)
    return file


@pytest.mark.level("process")  # each command starts a server
def test_splits_tasks_and_one_task_are_shown_and_written(capitals: Path, openenv_here: Any) -> None:
    lines = openenv_here("tasks", str(capitals)).stdout.splitlines()
    assert [line.split() for line in lines] == [["split", "tasks"], ["train", "2"], ["test", "1"]]
    assert json.loads(openenv_here("tasks", str(capitals), "--json").stdout) == {"train": 2, "test": 1}

    train = [{"split": "train", "index": index, "difficulty": difficulty} for index, difficulty in ((0, 0.1), (1, 0.2))]
    shown = openenv_here("tasks", str(capitals), "--split", "train", "--limit", "1", "--json")
    assert json.loads(shown.stdout) == train[:1]
    file = capitals.parent / "all.jsonl"
    assert openenv_here("tasks", str(capitals), "--output", str(file)).stdout == f"3 tasks written to {file}\n"
    assert list(map(json.loads, file.read_text().splitlines()))[:2] == train
    assert "Paris" not in file.read_text()

    task = json.loads(openenv_here("tasks", str(capitals), "--split", "test", "--index", "0").stdout)
    assert (task["country"], task["capital"], len(task["key"])) == ("Kenya", "Nairobi", 32)


def test_reset_of_an_environment_with_tasks_is_described_without_their_columns(
    capitals: Path, openenv_here: Any
) -> None:
    reset = json.loads(openenv_here("info", str(capitals), "--json").stdout)["reset"]
    assert [field["name"] for field in reset] == ["hint", "seed", "split", "index"]
    assert not any(field["required"] for field in reset)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--index", "0"], "Expected --split with --index"),
        (["--split", "dev", "--index", "0"], "Expected one of the splits train, test, got 'dev'"),
        (["--split", "test", "--index", "1"], "Expected an index from 0 to 0 in the split test, got 1"),
    ],
)
def test_a_task_that_is_not_there(capitals: Path, openenv_here: Any, options: list[str], message: str) -> None:
    ended = openenv_here("tasks", str(capitals), *options)
    assert (ended.returncode, message in ended.stderr) == (1, True)


def test_tasks_of_a_server_are_those_that_it_lists(openenv_here: Any) -> None:
    with RunningServer(create_fastapi_app(ListingEnvironment)) as server:
        assert json.loads(openenv_here("tasks", server.url, "--split", "test", "--index", "0").stdout) == {
            "start": 9, "split": "test", "index": 0,
        }  # fmt: skip
        ended = openenv_here("tasks", server.url, "--split", "test", "--index", "1")
        assert "got split test, index 1: Invalid task index." in ended.stderr


@pytest.mark.level("process")  # each command starts a server
def test_task_sets_of_an_environment_s_manifest_are_splits_too(tmp_path: Path, openenv_here: Any) -> None:
    rows: dict[str, list[dict[str, Any]]] = {
        "train": [{"seed": 1}, {"seed": 2, "note": "for people"}],
        "test": [{"seed": 3}],
    }
    said = environment_with_rows(tmp_path, rows)
    splits = {"default?split=train": 2, "default?split=test": 1}
    assert json.loads(openenv_here("tasks", said, "--json").stdout) == splits
    shown = openenv_here("tasks", said, "--split", "default?split=train", "--json")
    assert json.loads(shown.stdout) == [{"seed": 1}, {"seed": 2}]
    file = tmp_path / "all.jsonl"
    assert openenv_here("tasks", said, "--output", file).stdout == f"3 tasks written to {file}\n"
    assert list(map(json.loads, file.read_text().splitlines())) == [{"seed": 1}, {"seed": 2}, {"seed": 3}]
    last = ("--split", "default?split=test", "--index")
    assert json.loads(openenv_here("tasks", said, *last, "0").stdout) == {"seed": 3}
    assert "index from 0 to 0 in the split test, got 1" in openenv_here("tasks", said, *last, "1").stderr

    ended = openenv_here("eval", said, "--tasks", "default?split=test", "--output", tmp_path / "played", "--json")
    assert [task["task"] for task in json.loads(ended.stdout)["tasks"]] == [{"seed": 3}]
    ended = openenv_here("collect", said, "--tasks", "default?split=dev", "--output", tmp_path / "data")
    assert "has no split 'dev'. It has: train, test." in ended.stderr


def test_faults_of_tasks_and_files_are_shown_alone(capitals: Path, openenv_here: Any) -> None:
    for file in ("all.txt", "nowhere/all.jsonl"):
        ended = openenv_here("tasks", str(capitals), "--output", str(capitals.parent / file))
        assert "Expected --output as a file that ends in .jsonl, in a folder that is there" in ended.stderr
    (capitals.parent / "capitals.csv").write_text(f"{CAPITALS}test,France,Paris,0.1\n")
    ended = openenv_here("tasks", str(capitals))
    assert (ended.returncode, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    assert "expected each task once, but train[0] and test[1] have the same content" in line


def test_an_environment_without_tasks(openenv_here: Any) -> None:
    ended = openenv_here("tasks", "catch")
    assert "catch lists no tasks: each seed is one." in ended.stderr
