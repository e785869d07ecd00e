"""Public import path of ``openenv.core.client.client``."""

from openenv.core.client.client import EnvClient

__all__ = ["EnvClient"]
