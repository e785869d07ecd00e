"""Wordle: find the secret word in six guesses."""

from .client import WordleEnv
from .models import WordleAction, WordleObservation, WordleState

__all__ = ["WordleAction", "WordleEnv", "WordleObservation", "WordleState"]
