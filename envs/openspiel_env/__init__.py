"""The games of OpenSpiel, one environment for all of them."""

import sys

from .client import OpenSpielEnv
from .models import OpenSpielAction, OpenSpielObservation, OpenSpielState
from .moved import MovedGames

__all__ = ["OpenSpielAction", "OpenSpielEnv", "OpenSpielObservation", "OpenSpielState"]

sys.meta_path.insert(0, MovedGames())
