"""Public import path of ``EnvClient``; it lives in ``openenv.core.client.client``."""

from typing import Any, TypeVar

from openenv.core.client.client import EnvClient, ResultT
from openenv.core.client.results import ActT, ObsT, StateT, StepResult

__all__ = ["ActT", "EnvClient", "EnvClientT", "ObsT", "ResultT", "StateT", "StepResult"]

HTTPEnvClient = EnvClient
"""Name of ``EnvClient`` in 0.1, which ``openenv_core`` has."""

EnvClientT = TypeVar("EnvClientT", bound=EnvClient[Any, Any, Any])
