"""Public import path of ``ToolEnvironment``; it lives in ``openenv.train.trl.tool_environment``."""

from openenv.train.rollout.tool_episode import EpisodeStep
from openenv.train.trl.tool_environment import ToolEnvironment

__all__ = ["EpisodeStep", "ToolEnvironment"]
