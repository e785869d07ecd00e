"""Tasks by a split's name, from files, and of seeds: those to learn from, and those to compare players on."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.dataset_folders import dataset_folder

import openenv
from openenv.core.exceptions import ConfigurationError, OpenEnvError
from openenv.train.tasks.seeds import evaluation_seeds, training_seeds
from openenv.train.tasks.task_choice import Client, evaluation_tasks, named_tasks, training_tasks

needs_tasks = pytest.mark.needs("reasoning-gym")


class Lists:
    """Named tasks of a test, and the number of times that they were read."""

    def __init__(self) -> None:
        self.read = 0

    def named_tasks(self, name: str) -> list[dict[str, Any]]:
        self.read += 1
        return [{"split": name, "index": index} for index in range(3)]


def indexes(tasks: list[dict[str, Any]]) -> list[int]:
    return [task["index"] for task in tasks]


def test_without_names_there_are_seeds_and_those_of_trainings_and_evaluations_differ() -> None:
    lists = Lists()
    assert training_tasks(None, lists, 4, seed=2) == [{"seed": seed} for seed in training_seeds(2, 4)]
    evaluated = evaluation_tasks(None, lists, 4, seed=2)
    assert evaluated == [{"seed": seed} for seed in evaluation_seeds(2, 4)]
    assert len(evaluation_tasks(None, lists, None, seed=2)) == 100
    assert lists.read == 0


def test_a_training_goes_through_a_list_over_and_over_each_time_in_another_order() -> None:
    tasks = training_tasks("train", Lists(), 30, seed=1)
    passes = [indexes(tasks[start : start + 3]) for start in range(0, 30, 3)]
    assert all(sorted(each) == [0, 1, 2] for each in passes)
    assert len({tuple(each) for each in passes}) > 1
    assert training_tasks("train", Lists(), 8, seed=1) == tasks[:8], "a longer one begins with the same tasks"
    assert indexes(training_tasks("train", Lists(), 7, seed=1, shuffled=False)) == [0, 1, 2, 0, 1, 2, 0]
    seeds = [task["seed"] for task in training_tasks(2, Lists(), 6, seed=1)]
    assert set(seeds) == set(training_seeds(1, 2))


def test_an_evaluation_takes_the_first_of_a_list_all_or_as_many_as_it_must() -> None:
    assert indexes(evaluation_tasks("test", Lists(), 2, seed=1)) == [0, 1]
    assert indexes(evaluation_tasks("test", Lists(), 9, seed=1)) == [0, 1, 2]
    assert indexes(evaluation_tasks("test", Lists(), None, seed=1)) == [0, 1, 2]
    with pytest.raises(ConfigurationError, match=r"Expected 9 tasks in test; there are 3\."):
        evaluation_tasks("test", Lists(), 9, seed=1, may_be_fewer=False)


def test_a_task_s_own_parameters_win() -> None:
    reset = {"index": 9, "level": "hard"}
    (evaluated,) = evaluation_tasks("test", Lists(), 1, seed=1, reset=reset)
    assert evaluated == {"split": "test", "index": 0, "level": "hard"}
    (trained,) = training_tasks("test", Lists(), 1, seed=1, reset=reset, shuffled=False)
    assert trained == evaluated


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with openenv.make("reasoning_gym").sync() as connected:
        yield connected


@needs_tasks
def test_a_split(client: Client) -> None:
    tasks = named_tasks("train", client)
    assert tasks[:2] == [{"split": "train", "index": 0}, {"split": "train", "index": 1}]
    with pytest.raises(OpenEnvError, match="no_such_split"):
        named_tasks("no_such_split", client)


@needs_tasks
def test_files_are_read_anew(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"seed": 1}\n\n{"seed": 2, "level": "hard"}\n')
    assert named_tasks(str(file), client) == [{"seed": 1}, {"seed": 2, "level": "hard"}]
    file.write_text('{"seed": 3}\n')
    assert named_tasks(str(file), client) == [{"seed": 3}]
    splits = tmp_path / "tasks.json"
    splits.write_text(json.dumps({"train": [{"seed": 1}], "test": [{"seed": 2}]}))
    assert named_tasks(str(splits), client) == [{"seed": 1}, {"seed": 2}]


def test_the_first_of_them() -> None:
    listed = evaluation_tasks("test", Lists(), None, seed=1)
    assert evaluation_tasks("test", Lists(), 1, seed=1, may_be_fewer=False) == listed[:1]
    count = len(listed)
    with pytest.raises(ConfigurationError, match=rf"Expected {count + 1} tasks in test; there are {count}\."):
        evaluation_tasks("test", Lists(), count + 1, seed=1, may_be_fewer=False)


@needs_tasks
def test_rows_of_a_dataset(client: Client, tmp_path: Path) -> None:
    folder = dataset_folder(tmp_path)
    for name in (f"{folder}?split=test", f"{folder}/words?split=test", "default?split=test"):
        assert named_tasks(name, client, {"default": str(folder)}) == [{"seed": 3}]  # which has no word_length
    with pytest.raises(OpenEnvError, match=r"has no split 'dev'\. It has: train, test\."):
        named_tasks(f"{folder}?split=dev", client)
    with pytest.raises(ConfigurationError, match=r"Expected an environment of a dataset, as in .*, got 'other'"):
        named_tasks("other?split=test", client)
    for name in (str(folder), "default"):
        with pytest.raises(
            ConfigurationError, match=rf"split of the dataset {name}, as in {name}\?split=train\. It has"
        ):
            named_tasks(name, client, {"default": str(folder)})
    (tmp_path / "environment.txt").touch()
    with pytest.raises(ConfigurationError, match=r"file of tasks that ends in \.csv, .*, got .*environment\.txt"):
        named_tasks(str(tmp_path / "environment.txt"), client)


class Rows:
    """The rows of any file."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def named_tasks(self, name: str) -> list[dict[str, Any]]:
        return self.rows


def test_a_task_that_is_twice_in_a_file_is_refused_in_evaluations_alone() -> None:
    rows = Rows([{"seed": 1}, {"seed": 2}, {"seed": 1}])
    with pytest.raises(ConfigurationError, match=r"once in rows.jsonl, but those at 0 and 2, counted from 0"):
        evaluation_tasks("rows.jsonl", rows, None, seed=1)
    assert len(evaluation_tasks("rows.jsonl", rows, 2, seed=1)) == 2
    assert len(training_tasks("rows.jsonl", rows, 3, seed=1)) == 3


@needs_tasks
@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "can't be read from"), ("[1]", "a task is an object"), ("[]", "Expected at least one task in")],
)
def test_what_is_no_list_of_tasks(client: Client, tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "tasks.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigurationError, match=message):
        named_tasks(str(file), client)
