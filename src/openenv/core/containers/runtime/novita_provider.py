"""Public import path of ``NovitaSandboxProvider``; it lives in ``openenv.core.providers.cloud.novita``."""

from openenv.core.providers.cloud.novita import NovitaSandboxProvider

__all__ = ["NovitaSandboxProvider"]
