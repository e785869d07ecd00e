"""Public import path of ``openenv.core.client.sync``."""

from openenv.core.client.results import ActT, ObsT
from openenv.core.client.sync import SyncEnvClient

__all__ = ["ActT", "ObsT", "SyncEnvClient"]
