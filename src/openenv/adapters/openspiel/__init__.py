"""OpenSpiel's games, to be served, and parts of environments of one game. ``environment_for("tic_tac_toe")``.

Names are imported on first use (PEP 562): the models need no OpenSpiel, the rest imports it.
"""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.adapters.openspiel.environment import OpenSpielEnvironment as OpenSpielEnvironment
    from openenv.adapters.openspiel.factory import environment_for as environment_for
    from openenv.adapters.openspiel.games import game_type as game_type
    from openenv.adapters.openspiel.games import unknown_game as unknown_game
    from openenv.adapters.openspiel.models import OpenSpielAction as OpenSpielAction
    from openenv.adapters.openspiel.models import OpenSpielObservation as OpenSpielObservation
    from openenv.adapters.openspiel.models import OpenSpielState as OpenSpielState
    from openenv.adapters.openspiel.opponents import OpponentPolicy as OpponentPolicy
    from openenv.adapters.openspiel.word_game import WordGame as WordGame
    from openenv.adapters.openspiel.words import WordAction as WordAction
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "openenv.adapters.openspiel.environment": ("OpenSpielEnvironment",),
            "openenv.adapters.openspiel.games": ("game_type", "unknown_game"),
            "openenv.adapters.openspiel.factory": ("environment_for",),
            "openenv.adapters.openspiel.models": ("OpenSpielAction", "OpenSpielObservation", "OpenSpielState"),
            "openenv.adapters.openspiel.opponents": ("OpponentPolicy",),
            "openenv.adapters.openspiel.word_game": ("WordGame",),
            "openenv.adapters.openspiel.words": ("WordAction",),
        },
    )
