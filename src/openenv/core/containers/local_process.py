"""Public import path of ``openenv.core.providers.local_process``."""

from openenv.core.providers.local_process import LocalProcessProvider

__all__ = ["LocalProcessProvider"]
