"""Evaluation harnesses: what ran is with the scores, and what is missing is an error."""

import sys
from pathlib import Path
from typing import Any

import pytest

from openenv.core.evals import EvalConfig, EvalHarness, InspectAIHarness


class Constant(EvalHarness):
    def run(self, harness_version: str, library_versions: Any, dataset: str, eval_parameters: Any) -> dict[str, Any]:
        return {"accuracy": eval_parameters["share"]}


def config(**parameters: Any) -> EvalConfig:
    return EvalConfig(
        harness_name="Constant", harness_version="1", library_versions={}, dataset="d", eval_parameters=parameters
    )


def test_a_result_has_its_configuration() -> None:
    result = Constant().run_from_config(config(share=0.5))
    assert (result.scores, result.config.dataset, Constant().name) == ({"accuracy": 0.5}, "d", "Constant")


def test_inspect_needs_a_model(tmp_path: Path) -> None:
    harness = InspectAIHarness(log_dir=str(tmp_path))
    with pytest.raises(ValueError, match="must include 'model'"):
        harness.run_from_config(config())
    with pytest.raises(ValueError, match="Unknown eval_parameters: speed"):
        harness.run_from_config(config(model="m", speed=1))


def test_inspect_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    with pytest.raises(ImportError, match="inspect-ai is required for InspectAIHarness: pip install"):
        InspectAIHarness().run_from_config(config(model="m"))
