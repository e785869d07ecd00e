"""Evaluations of models by harnesses: what was run, with which versions, and the scores."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.core.evals.base import EvalConfig as EvalConfig
    from openenv.core.evals.base import EvalHarness as EvalHarness
    from openenv.core.evals.base import EvalResult as EvalResult
    from openenv.core.evals.inspect_harness import InspectAIHarness as InspectAIHarness
    from openenv.train.evaluation.harness import EnvEvalHarness as EnvEvalHarness
    from openenv.train.evaluation.harness import EvalSchedule as EvalSchedule
    from openenv.train.evaluation.harness import compare_eval_results as compare_eval_results
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "openenv.core.evals.base": ("EvalConfig", "EvalHarness", "EvalResult"),
            "openenv.core.evals.inspect_harness": ("InspectAIHarness",),
            "openenv.train.evaluation.harness": ("EnvEvalHarness", "EvalSchedule", "compare_eval_results"),
        },
    )
