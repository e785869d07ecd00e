"""Public import path of ``openenv.core.client.sync``."""

from openenv.core.client.sync import SyncEnvClient

__all__ = ["SyncEnvClient"]
