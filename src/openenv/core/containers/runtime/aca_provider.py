"""Public import path of ``ACASandboxProvider``; it lives in ``openenv.core.providers.cloud.aca``."""

from openenv.core.providers.cloud.aca import ACASandboxProvider

__all__ = ["ACASandboxProvider"]
