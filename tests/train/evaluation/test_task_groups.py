"""Scores by difficulty and group."""

import pytest

from openenv.records.evaluation import TaskResult
from openenv.train.evaluation.task_groups import task_groups


def result(task: dict[str, object], rewards: list[float], failed: int = 0) -> TaskResult:
    return TaskResult(task, rewards, sum(reward >= 1 for reward in rewards), failed)


def test_scores_are_by_value_and_numbers_in_their_order() -> None:
    tasks = [
        result({"index": 0, "difficulty": 10}, [0.0, 0.5]),
        result({"index": 1, "difficulty": 2}, [1.0, 1.0]),
        result({"index": 2, "difficulty": 2}, [1.0, 0.0]),
    ]
    assert list(task_groups(tasks)) == ["difficulty"]
    groups = task_groups(tasks)["difficulty"]
    assert list(groups) == ["2", "10"]
    assert (groups["2"].tasks, groups["2"].mean_reward.value, groups["2"].success.value) == (2, 0.75, 0.75)
    assert (groups["10"].tasks, groups["10"].mean_reward.value, groups["10"].success.value) == (1, 0.25, 0.0)
    assert groups["10"].mean_reward.low is None


def test_a_task_whose_attempts_all_failed_is_in_no_mean() -> None:
    tasks = [
        result({"seed": 1, "group": "a"}, [1.0]),
        result({"seed": 2, "group": "a"}, [], failed=4),
        result({"seed": 3, "group": "b"}, [0.0]),
        result({"seed": 4, "group": None}, [0.0]),
        result({"seed": 5}, [0.0]),
    ]
    groups = task_groups(tasks)["group"]
    assert {name: (group.tasks, group.mean_reward.value) for name, group in groups.items()} == {
        "a": (1, 1.0),
        "b": (1, 0.0),
    }


@pytest.mark.parametrize("key", ["difficulty", "group"])
def test_one_value_needs_no_groups(key: str) -> None:
    assert task_groups([result({"seed": seed, key: "easy"}, [1.0]) for seed in range(3)]) == {}
