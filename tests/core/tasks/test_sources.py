"""Sources of tasks: made by chance, or read from a file."""

import copy
import json
from pathlib import Path

import pytest

from openenv.core.exceptions import InvalidRequestError
from openenv.core.tasks import GeneratedTasks, Task, TaskFile, TaskRef


def check_sum(task: Task) -> None:
    if not isinstance(task.get("sum"), str):
        raise ValueError("'sum' is a text")


def test_tasks_made_by_chance_have_three_splits() -> None:
    tasks = GeneratedTasks()
    assert tasks.task_counts == {"train": 10_000, "validation": 10_000, "test": 10_000}
    assert tasks.choose_task(None, None, seed=12_345) == TaskRef("train", 2_345)


def test_a_file_has_the_splits_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "sums.json"
    file.write_text(json.dumps({"easy": [{"sum": "1+1"}], "hard": [{"sum": "7*8"}, {"sum": "9*9"}]}))
    tasks = TaskFile(file, check_sum)
    assert (tasks.task_counts, tasks.folder) == ({"easy": 1, "hard": 2}, tmp_path)
    assert tasks.row(TaskRef("hard", 1), level=None) == {"sum": "9*9"}
    with pytest.raises(InvalidRequestError, match="by split and index, not by level or kind"):
        tasks.row(TaskRef("hard", 1), level="low", kind=None)


def test_copies_of_an_environment_share_its_tasks() -> None:
    tasks = GeneratedTasks()
    assert copy.deepcopy({"tasks": tasks})["tasks"] is tasks
