"""Public import path of ``AutoAction``; it lives in ``openenv.auto.auto_env``."""

from openenv.auto.auto_env import AutoAction

__all__ = ["AutoAction"]
