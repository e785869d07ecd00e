"""Public import path of ``openenv.core.client.generic``."""

from openenv.core.client.generic import GenericAction, GenericEnvClient

__all__ = ["GenericAction", "GenericEnvClient"]
