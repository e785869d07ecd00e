"""Evaluations of models by harnesses: what was run, with which versions, and the scores."""

from openenv.core.evals.base import EvalConfig, EvalHarness, EvalResult
from openenv.core.evals.inspect_harness import InspectAIHarness

__all__ = ["EvalConfig", "EvalHarness", "EvalResult", "InspectAIHarness"]
