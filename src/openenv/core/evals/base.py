"""``EvalHarness``: what runs an evaluation; ``EvalConfig`` and ``EvalResult``: what ran, and its scores."""

from abc import ABC, abstractmethod
from typing import Any

from pydantic import BaseModel, ConfigDict

__all__ = ["EvalConfig", "EvalHarness", "EvalResult"]


class EvalConfig(BaseModel):
    """What an evaluation needs to be run again.

    Attributes:
        harness_name: Name of the harness.
        harness_version: Version of the harness.
        library_versions: Versions of the libraries that it uses.
        dataset: Name of the data set or task.
        eval_parameters: Parameters of the harness.
    """

    model_config = ConfigDict(extra="forbid")

    harness_name: str
    harness_version: str
    library_versions: dict[str, str]
    dataset: str
    eval_parameters: dict[str, Any]


class EvalResult(BaseModel):
    """Scores of an evaluation.

    Attributes:
        config: What was run.
        scores: Scores by name.
    """

    model_config = ConfigDict(extra="forbid")

    config: EvalConfig
    scores: dict[str, Any]


class EvalHarness(ABC):
    """Harness that evaluates models."""

    @property
    def name(self) -> str:
        """Name of the harness: its class's."""
        return type(self).__name__

    @abstractmethod
    def run(
        self, harness_version: str, library_versions: dict[str, str], dataset: str, eval_parameters: dict[str, Any]
    ) -> dict[str, Any]:
        """Run an evaluation.

        Args:
            harness_version: Version of the harness, for the record.
            library_versions: Versions of libraries, for the record.
            dataset: Name of the data set or task.
            eval_parameters: Parameters of the harness.

        Returns:
            Scores by name.
        """

    def run_from_config(self, config: EvalConfig) -> EvalResult:
        """Run an evaluation as configured."""
        scores = self.run(config.harness_version, config.library_versions, config.dataset, config.eval_parameters)
        return EvalResult(config=config, scores=scores)
