"""Public import path of ``EnvClient``; it lives in ``openenv.core.client.client``."""

from openenv.core.client.client import EnvClient
from openenv.core.client.results import ActT, ObsT, StateT

__all__ = ["ActT", "EnvClient", "ObsT", "StateT"]
