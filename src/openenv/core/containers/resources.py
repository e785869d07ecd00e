"""Public import path of ``openenv.core.providers.resources``."""

from openenv.core.providers.resources import Resources

__all__ = ["Resources"]
