"""``InspectAIHarness``: evaluations by Inspect, such as those of an environment's tasks (``openenv/...``)."""

from importlib import import_module
from typing import Any

from openenv._extras import install_command
from openenv.core.evals.base import EvalHarness

__all__ = ["InspectAIHarness"]

# Parameters that inspect_ai.eval has under the same names.
_PASSED_ON = frozenset(
    {
        "epochs",
        "limit",
        "max_connections",
        "max_samples",
        "max_tokens",
        "model_args",
        "model_base_url",
        "scorer",
        "seed",
        "solver",
        "task_args",
        "temperature",
    }
)
_OWN = frozenset({"model", "task"})


class InspectAIHarness(EvalHarness):
    """Harness on ``inspect_ai.eval``.

    Its parameters are ``model`` (needed), ``task`` (by default the data set) and, with Inspect's meaning,
    ``model_base_url``, ``model_args``, ``task_args``, ``solver``, ``scorer``, ``epochs``, ``limit``, ``seed``,
    ``temperature``, ``max_tokens``, ``max_samples`` and ``max_connections``.

    Args:
        log_dir: Folder for Inspect's log; by default Inspect's own choice.
    """

    def __init__(self, *, log_dir: str | None = None) -> None:
        self.log_dir = log_dir

    def run(
        self, harness_version: str, library_versions: dict[str, str], dataset: str, eval_parameters: dict[str, Any]
    ) -> dict[str, Any]:
        """Run a task with Inspect.

        Returns:
            The metrics of all scorers by name; where two scorers have a metric in common, as ``scorer/metric``.

        Raises:
            ImportError: Inspect is not installed.
            ValueError: There is no model, or a parameter is unknown.
            RuntimeError: The evaluation failed, or Inspect wrote no log.
        """
        try:
            evaluate = import_module("inspect_ai").eval
        except ImportError as error:
            raise ImportError(
                f"The package inspect-ai is required for InspectAIHarness: {install_command('inspect')}"
            ) from error
        model = eval_parameters.get("model")
        if model is None:
            raise ValueError("eval_parameters must include 'model', such as 'openai/gpt-4o'.")
        unknown = eval_parameters.keys() - _PASSED_ON - _OWN
        if unknown:
            raise ValueError(
                f"Unknown eval_parameters: {', '.join(sorted(unknown))}; expected some of "
                f"{', '.join(sorted(_PASSED_ON | _OWN))}."
            )
        options = {
            name: value for name, value in eval_parameters.items() if name in _PASSED_ON and value not in (None, {})
        }
        if self.log_dir is not None:
            options["log_dir"] = self.log_dir
        logs = evaluate(eval_parameters.get("task", dataset), model=model, **options)
        if not logs:
            raise RuntimeError("Inspect AI evaluation returned no logs; check that the task exists.")
        if logs[0].status != "success":
            raise RuntimeError(f"Inspect AI evaluation failed with status: {logs[0].status}")
        return self._extract_scores(logs[0])

    def _extract_scores(self, log: Any) -> dict[str, Any]:
        """Return the metrics of a log; may be overridden."""
        listed = [
            (scorer.name, name, metric.value)
            for scorer in (() if log.results is None else log.results.scores)
            for name, metric in scorer.metrics.items()
        ]
        names = [name for _, name, _ in listed]
        return {name if names.count(name) == 1 else f"{scorer}/{name}": value for scorer, name, value in listed}
