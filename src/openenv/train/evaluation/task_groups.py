"""Scores of an evaluation by the difficulty of tasks, and by their group."""

from collections.abc import Sequence
from itertools import chain
from statistics import fmean

from openenv.core.rubrics.bounds import reward_range
from openenv.records.evaluation import TaskGroup, TaskResult
from openenv.train.evaluation.intervals import mean_estimate, share_estimate

__all__ = ["task_groups"]

KEYS = ("difficulty", "group")


def task_groups(tasks: Sequence[TaskResult]) -> dict[str, dict[str, TaskGroup]]:
    """Return the scores by key and value, of keys with two values or more; tasks without a counted attempt are none."""
    played = [task for task in tasks if task.rewards]
    bounds = reward_range(chain.from_iterable(task.rewards for task in played))
    found = {}
    for key in KEYS:
        by_value: dict[str, list[TaskResult]] = {}
        for task in played:
            if task.task.get(key) is not None:
                by_value.setdefault(str(task.task[key]), []).append(task)
        if len(by_value) > 1:
            found[key] = {value: _scores(each, bounds) for value, each in sorted(by_value.items(), key=_order)}
    return found


def _scores(tasks: Sequence[TaskResult], bounds: tuple[float, float]) -> TaskGroup:
    shares = [task.successes / len(task.rewards) for task in tasks]
    attempts = sum(len(task.rewards) for task in tasks)
    return TaskGroup(
        tasks=len(tasks),
        mean_reward=mean_estimate([fmean(task.rewards) for task in tasks], bounds),
        success=share_estimate(shares, attempts),
    )


def _order(group: tuple[str, object]) -> tuple[int, float, str]:
    """Return the key to sort a value by: numbers by their size, then names."""
    value = group[0]
    try:
        return 0, float(value), value
    except ValueError:
        return 1, 0.0, value
