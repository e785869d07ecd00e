"""2048 in words: up, right, down, left."""

from .client import Game2048Env
from .models import Game2048Action, Game2048Observation

__all__ = ["Game2048Action", "Game2048Env", "Game2048Observation"]
