"""Comparison of two evaluations on the tasks that both have: what is fixed, what regressed, by chance or not."""

from collections.abc import Mapping, Sequence
from math import comb
from pathlib import Path
from typing import Any

from openenv.core.exceptions import ConfigurationError
from openenv.core.rubrics.bounds import reaches
from openenv.records.episodes import task_key
from openenv.records.evaluation import Comparison, Evaluation, TaskResult, read_evaluation
from openenv.train.evaluation.intervals import mean_estimate

__all__ = ["check_common", "comparison", "earlier_evaluation"]


def earlier_evaluation(path: Path) -> Evaluation:
    """Read an evaluation, by its folder or by the ``results.json`` in it.

    Raises:
        ConfigurationError: It is not there, or can't be read.
    """
    folder = path.parent if path.name == "results.json" else path
    evaluation, problem = read_evaluation(folder)
    if evaluation is None:
        raise ConfigurationError(
            problem or f"Expected the folder of a completed openenv eval, got {path}, which has no results.json."
        )
    return evaluation


def check_common(tasks: Sequence[Mapping[str, Any]], before: Evaluation) -> None:
    """Refuse to compare with an evaluation that counts none of the tasks."""
    if not {task_key(task) for task in tasks} & _counted(before).keys():
        raise ConfigurationError(
            f"None of the {len(tasks)} tasks counts in the evaluation to compare with, of {before.player} on "
            f"{before.environment}: its tasks are like {before.tasks[0].task}, and these like {dict(tasks[0])}. Play "
            f"the same --tasks, with the same --seed and --reset."
        )


def comparison(before: Evaluation, after: Evaluation) -> Comparison:
    """Compare two evaluations, by the later one's reward of a success."""
    earlier, later = _counted(before), _counted(after)
    common = [key for key in later if key in earlier]
    were = [_is_solved(earlier[key], after.success_reward) for key in common]
    are = [_is_solved(later[key], after.success_reward) for key in common]
    pairs = list(zip(common, were, are, strict=True))
    fixed = [later[key].task for key, was, is_now in pairs if is_now and not was]
    regressed = [later[key].task for key, was, is_now in pairs if was and not is_now]
    differences = [later[key].mean - earlier[key].mean for key in common]
    return Comparison(
        before=f"{before.player} on {before.environment}",
        common=len(common),
        other=len(earlier.keys() ^ later.keys()),
        reward_difference=mean_estimate(differences) if differences else None,
        fixed=fixed,
        regressed=regressed,
        chance=_chance(len(fixed), len(regressed)),
        settings=_changed_settings(before, after),
    )


def _counted(evaluation: Evaluation) -> dict[str, TaskResult]:
    return {task_key(task.task): task for task in evaluation.tasks if task.rewards}


def _is_solved(task: TaskResult, success_reward: float) -> bool:
    return 2 * sum(reaches(reward, success_reward) for reward in task.rewards) >= len(task.rewards)


def _chance(fixed: int, regressed: int) -> float:
    """Return the p-value of the exact McNemar test: a binomial test of the tasks that changed."""
    changed = fixed + regressed
    tail = sum(comb(changed, number) for number in range(min(fixed, regressed) + 1))
    return float(min(1.0, 2 * tail / 2**changed))


def _changed_settings(before: Evaluation, after: Evaluation) -> dict[str, tuple[Any, Any]]:
    values = {
        "environment": (before.environment, after.environment),
        "attempts": (before.samples, after.samples),
        "temperature": (before.temperature, after.temperature),
        "illegal answers": (_text(before.rule), _text(after.rule)),
    }
    # A player without a model has no temperature.
    return {
        name: (earlier, later)
        for name, (earlier, later) in values.items()
        if earlier != later and None not in (earlier, later)
    }


def _text(rule: object) -> str | None:
    return None if rule is None else str(rule)
