"""Public import path of ``openenv.core.client.sync``, and of what programs import beside it from there."""

from openenv.core.client.results import ActT, ObsT, StateT, StepResult
from openenv.core.client.sync import SyncEnvClient

__all__ = ["ActT", "ObsT", "StateT", "StepResult", "SyncEnvClient"]
