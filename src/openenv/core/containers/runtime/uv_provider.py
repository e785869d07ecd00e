"""Public import path of ``UVProvider``; it lives in ``openenv.core.providers.uv``."""

from openenv.core.providers.uv import UVProvider

__all__ = ["UVProvider"]
