"""Tasks that are made by chance."""

import copy

from openenv.core.tasks import GeneratedTasks, TaskRef


def test_tasks_made_by_chance_have_three_splits() -> None:
    tasks = GeneratedTasks()
    assert tasks.task_counts == {"train": 10_000, "validation": 10_000, "test": 10_000}
    assert tasks.choose_task(None, None, seed=12_345) == TaskRef("train", 2_345)


def test_copies_of_an_environment_share_its_tasks() -> None:
    tasks = GeneratedTasks()
    assert copy.deepcopy({"tasks": tasks})["tasks"] is tasks
