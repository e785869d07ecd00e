"""Public import path of ``openenv.core.client.results``."""

from openenv.core.client.results import ActT, ObsT, StateT, StepResult

__all__ = ["ActT", "ObsT", "StateT", "StepResult"]
