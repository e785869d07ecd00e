"""The former import path of `ApiAgent`, as ``ApiPlayer``."""

from openenv.train.agents.api_agent import ApiAgent as ApiPlayer
from openenv.train.agents.api_agent import PlayedEpisode, to_openai

__all__ = ["ApiPlayer", "PlayedEpisode", "to_openai"]
