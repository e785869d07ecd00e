"""Catch: move the paddle under the falling ball. Small enough to train a language model on from random weights."""

from .client import CatchEnv
from .models import CatchAction, CatchObservation

__all__ = ["CatchAction", "CatchEnv", "CatchObservation"]
