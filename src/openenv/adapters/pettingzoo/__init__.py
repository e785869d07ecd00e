"""PettingZoo's turn-based games, to be served: ``environment_class("classic/tictactoe-v3")``."""

from openenv._extras import install_command

try:
    import pettingzoo as _pettingzoo  # noqa: F401  # raised here once, instead of a traceback from the depths
except ImportError as error:
    raise ImportError(f"This needs PettingZoo: {install_command('pettingzoo')}") from error

from openenv.adapters.pettingzoo.environment import PettingZooEnvironment
from openenv.adapters.pettingzoo.factory import environment_class
from openenv.adapters.pettingzoo.opponents import Opponent, Turn, random_move

__all__ = ["Opponent", "PettingZooEnvironment", "Turn", "environment_class", "random_move"]
