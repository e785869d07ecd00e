"""Public import path of ``EvalConfig`` and ``EvalResult``; they live in ``openenv.core.evals.base``."""

from openenv.core.evals.base import EvalConfig, EvalResult

__all__ = ["EvalConfig", "EvalResult"]
