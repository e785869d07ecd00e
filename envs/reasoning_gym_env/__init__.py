"""The datasets of reasoning-gym: a question, and the one step that answers it."""

from .client import ReasoningGymEnv
from .models import AnswerAction, ReasoningObservation, ReasoningState

__all__ = ["AnswerAction", "ReasoningGymEnv", "ReasoningObservation", "ReasoningState"]
