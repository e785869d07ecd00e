"""SkyRL-Gym, both ways.

SkyRL-Gym's environments, to be served: ``environment_for("gsm8k")``. Served environments as SkyRL-Gym's:
``ServedTextEnv``, which is registered there with one line.
"""

from openenv._extras import install_command

try:
    import skyrl_gym as _skyrl_gym  # noqa: F401  # raised here once, instead of a traceback from the depths
except ImportError as error:
    raise ImportError(f"This needs SkyRL-Gym: {install_command('skyrl')}") from error

from openenv.adapters.skyrl.environment import ConversationObservation, ReplyAction, SkyRLEnvironment, SkyRLState
from openenv.adapters.skyrl.factory import environment_for
from openenv.adapters.skyrl.served import ServedTextEnv

__all__ = [
    "ConversationObservation",
    "ReplyAction",
    "ServedTextEnv",
    "SkyRLEnvironment",
    "SkyRLState",
    "environment_for",
]
