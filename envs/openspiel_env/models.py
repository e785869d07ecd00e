"""Actions and observations: the same as with ``openenv serve openspiel:GAME``."""

from openenv.adapters.openspiel import OpenSpielAction, OpenSpielObservation, OpenSpielState

__all__ = ["OpenSpielAction", "OpenSpielObservation", "OpenSpielState"]
