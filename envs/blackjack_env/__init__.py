"""Blackjack in words: hit or stand."""

from .client import BlackjackEnv
from .models import BlackjackAction, BlackjackObservation

__all__ = ["BlackjackAction", "BlackjackEnv", "BlackjackObservation"]
