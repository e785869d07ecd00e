"""TextArena: text games for one or many players, chosen at each reset."""

from .client import TextArenaEnv
from .models import TextArenaAction, TextArenaMessage, TextArenaObservation, TextArenaState
from .rewards import RewardProvider, build_reward_providers

__all__ = [
    "RewardProvider",
    "TextArenaAction",
    "TextArenaEnv",
    "TextArenaMessage",
    "TextArenaObservation",
    "TextArenaState",
    "build_reward_providers",
]
