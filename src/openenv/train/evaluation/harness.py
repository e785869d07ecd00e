"""``EnvEvalHarness``: evaluations of environments as `openenv.core.evals` runs them; their comparison and schedule."""

from collections.abc import Callable, Mapping
from itertools import count
from math import sqrt
from pathlib import Path
from statistics import stdev
from typing import Any

from openenv.core.documents import first_new_folder, write_json
from openenv.core.evals.base import EvalConfig, EvalHarness, EvalResult
from openenv.core.exceptions import ConfigurationError
from openenv.records.evaluation import Comparison, Estimate, Evaluation, TaskResult
from openenv.train.evaluation.comparison import comparison, earlier_evaluation
from openenv.train.evaluation.evaluating import evaluate
from openenv.train.settings.play_settings import PlaySettings

__all__ = ["EnvEvalHarness", "EvalSchedule", "compare_eval_results"]

# Parameters that PlaySettings has under the same names.
_PLAYED = frozenset(
    {
        "base_url",
        "form",
        "llm_endpoint",
        "max_answers",
        "max_episode_tokens",
        "max_price",
        "max_seconds",
        "max_tokens",
        "max_turns",
        "model",
        "player",
        "prices",
        "reset",
        "system_prompt",
        "temperature",
    }
)
_OWN = frozenset({"limit", "samples_per_task", "seeds", "sessions", "split", "success_threshold"})


class EnvEvalHarness(EvalHarness):
    """Harness that plays an environment, which is the data set, and scores a model or a player, as `openenv eval` does.

    Its parameters are ``split`` (a split of the environment's tasks, or a file of them) or ``seeds`` (a list; by
    default 100 seeds that no training has); ``limit`` (the number of tasks), ``samples_per_task`` (1),
    ``success_threshold`` (1.0), ``sessions`` (episodes at once, 16); and, as in `PlaySettings`, ``model`` or ``player``
    (the scripted one), ``llm_endpoint``, ``base_url``, ``temperature`` (0), ``max_tokens``, ``max_turns``, ``form``,
    ``system_prompt``, ``reset``, ``prices`` and the limits of an episode.

    Args:
        output_dir: Folder in which each run has a new folder, ``run-1`` and so on, with episodes and ``results.json``.

    Example::

        config = EvalConfig(
            harness_name="EnvEvalHarness", harness_version="1", library_versions={}, dataset="catch",
            eval_parameters={"player": "random", "limit": 20},
        )
        print(EnvEvalHarness("evals").run_from_config(config).scores["success_rate"])
    """

    def __init__(self, output_dir: str | Path = "evals") -> None:
        self.output_dir = Path(output_dir)

    def run(
        self, harness_version: str, library_versions: dict[str, str], dataset: str, eval_parameters: dict[str, Any]
    ) -> dict[str, Any]:
        """Evaluate a model or a player in the environment that ``dataset`` names.

        Returns:
            ``success_rate`` with ``success_rate_stderr`` (``None`` for one task), ``mean_reward``, ``mean_turns``,
            ``mean_completion_tokens`` and ``price_usd`` (``None`` where they are not known), ``error_rate``, ``pass@k``
            for 1 and the samples, ``by_difficulty``, ``by_group``, ``per_task`` and ``folder``.

        Raises:
            ValueError: A parameter is unknown, or both a split and seeds are given.
            OpenEnvError: The environment or the model are refused; the subclass names the reason.
        """
        _check(eval_parameters)
        folder = first_new_folder(self.output_dir / f"run-{number}" for number in count(1))
        played = {name: eval_parameters[name] for name in _PLAYED & eval_parameters.keys()}
        if "model" not in played:
            played.setdefault("player", "scripted")
        settings = PlaySettings(
            environment=dataset, tasks=_tasks(eval_parameters, folder), **{"temperature": 0.0, **played}
        )
        evaluation = evaluate(
            settings,
            folder,
            num_tasks=eval_parameters.get("limit"),
            samples=eval_parameters.get("samples_per_task", 1),
            success_reward=eval_parameters.get("success_threshold", 1.0),
            sessions=eval_parameters.get("sessions", 16),
        )
        return {**_scores(evaluation), "folder": str(folder)}


class EvalSchedule:
    """Schedule of evaluations in a training of one's own: every so many steps.

    Args:
        harness: The harness.
        config: What it runs.
        every_n_steps: Number of steps between two evaluations, 1 or more.
        on_result: Function of the step and the result, as to log it.

    Raises:
        ConfigurationError: The number is below 1.

    Example::

        schedule = EvalSchedule(EnvEvalHarness("evals"), config, every_n_steps=50, on_result=log)
        for step in range(1, 1001):
            train_one_step()
            schedule.maybe_run(step)
    """

    def __init__(
        self,
        harness: EvalHarness,
        config: EvalConfig,
        every_n_steps: int,
        on_result: Callable[[int, EvalResult], object] | None = None,
    ) -> None:
        if every_n_steps < 1:
            raise ConfigurationError(f"Expected every_n_steps to be 1 or more, got {every_n_steps}.")
        self.harness = harness
        self.config = config
        self.every_n_steps = every_n_steps
        self.on_result = on_result

    def maybe_run(self, step: int) -> EvalResult | None:
        """Run the evaluation if the step is due, and return its result; ``None`` at other steps.

        Args:
            step: Number of the step that has just ended; 0 is before the first one, and is due too.
        """
        if step % self.every_n_steps:
            return None
        result = self.harness.run_from_config(self.config)
        if self.on_result is not None:
            self.on_result(step, result)
        return result


def compare_eval_results(before: EvalResult | str | Path, after: EvalResult | str | Path) -> Comparison:
    """Compare two evaluations on the tasks that both have.

    Args:
        before: The earlier one: a result of `EnvEvalHarness`, or the folder or the ``results.json`` of an evaluation.
        after: The later one, whose reward of a success counts.

    Returns:
        The comparison, with the tasks that are ``fixed`` and those that ``regressed``.

    Raises:
        ConfigurationError: One of them is not there, or has no tasks.
    """
    return comparison(_evaluation_of(before), _evaluation_of(after))


def _check(parameters: Mapping[str, Any]) -> None:
    unknown = parameters.keys() - _PLAYED - _OWN
    if unknown:
        raise ValueError(
            f"Unknown eval_parameters: {', '.join(sorted(unknown))}; expected some of "
            f"{', '.join(sorted(_PLAYED | _OWN))}."
        )
    if parameters.get("split") is not None and parameters.get("seeds") is not None:
        raise ValueError("Expected either a split or seeds in eval_parameters, got both.")


def _tasks(parameters: Mapping[str, Any], folder: Path) -> str | None:
    """Return the split, or the file that seeds are written to; ``None`` for the seeds of an evaluation."""
    seeds = parameters.get("seeds")
    if seeds is None:
        split = parameters.get("split")
        return None if split is None else str(split)
    file = folder.with_name(f"{folder.name}-tasks.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, [{"seed": seed} for seed in seeds])
    return str(file)


def _scores(evaluation: Evaluation) -> dict[str, Any]:
    tasks = [task for task in evaluation.tasks if task.rewards]
    shares = [task.successes / len(task.rewards) for task in tasks]
    spending, played = evaluation.spending, evaluation.episodes + evaluation.failed
    tokens = None if spending is None else spending.output_tokens
    groups = {
        key: {
            value: {"tasks": group.tasks, "mean_reward": group.mean_reward.value, "success_rate": group.success.value}
            for value, group in found.items()
        }
        for key, found in evaluation.groups.items()
    }
    return {
        "success_rate": sum(shares) / len(shares),
        "success_rate_stderr": stdev(shares) / sqrt(len(shares)) if len(shares) > 1 else None,
        "mean_reward": evaluation.mean_reward.value,
        "mean_turns": evaluation.mean_length,
        "mean_completion_tokens": None if tokens is None else tokens / played,
        "price_usd": None if spending is None else spending.price_usd,
        "error_rate": evaluation.failed / played,
        **{f"pass@{k}": estimate.value for k, estimate in evaluation.pass_at.items()},
        "by_difficulty": groups.get("difficulty", {}),
        "by_group": groups.get("group", {}),
        "per_task": [
            {"task": task.task, "rewards": task.rewards, "successes": task.successes, "failed": task.failed}
            for task in evaluation.tasks
        ],
    }


def _evaluation_of(result: EvalResult | str | Path) -> Evaluation:
    """Return an evaluation of a folder, or what a comparison needs of a result."""
    if not isinstance(result, EvalResult):
        return earlier_evaluation(Path(result))
    scores, config, parameters = result.scores, result.config, result.config.eval_parameters
    if "per_task" not in scores:
        raise ConfigurationError(
            f"Expected a result of EnvEvalHarness, with per_task in its scores, got one of {config.harness_name}."
        )
    return Evaluation(
        environment=config.dataset,
        player=str(parameters.get("model") or f"{parameters.get('player', 'scripted')} player"),
        samples=parameters.get("samples_per_task", 1),
        success_reward=parameters.get("success_threshold", 1.0),
        mean_reward=Estimate(scores["mean_reward"]),
        pass_at={},
        mean_length=scores["mean_turns"],
        illegal_actions=0.0,
        tasks=[TaskResult(**task) for task in scores["per_task"]],
        temperature=parameters.get("temperature", 0.0) if parameters.get("model") else None,
    )
