"""BrowserGym: tasks of MiniWoB++ in a real browser."""

from .client import BrowserGymEnv
from .models import BrowserGymAction, BrowserGymObservation, BrowserGymState

__all__ = ["BrowserGymAction", "BrowserGymEnv", "BrowserGymObservation", "BrowserGymState"]
