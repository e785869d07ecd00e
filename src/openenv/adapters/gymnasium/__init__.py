"""Gymnasium, both ways.

Served environments as Gymnasium's: ``GymnasiumVectorEnv`` for many, ``GymnasiumEnv`` for one. Gymnasium's environments,
to be served: ``environment_class("CartPole-v1")``.
"""

from openenv._extras import install_command

try:
    import gymnasium as _gymnasium  # noqa: F401  # raised here once, instead of a traceback from the depths
except ImportError as error:
    raise ImportError(f"This needs Gymnasium: {install_command('gymnasium')}") from error

from openenv.adapters.gymnasium.env import GymnasiumEnv
from openenv.adapters.gymnasium.environment import GymnasiumEnvironment
from openenv.adapters.gymnasium.factory import environment_class
from openenv.adapters.gymnasium.spaces import action_codec, observation_codec
from openenv.adapters.gymnasium.vector_env import GymnasiumVectorEnv

__all__ = [
    "GymnasiumEnv",
    "GymnasiumEnvironment",
    "GymnasiumVectorEnv",
    "action_codec",
    "environment_class",
    "observation_codec",
]
