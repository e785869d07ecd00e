"""Actions and observations: the same as with ``openenv serve reasoning_gym:DATASET``."""

from openenv.adapters.reasoning_gym.models import AnswerAction, ReasoningObservation, ReasoningState

__all__ = ["AnswerAction", "ReasoningObservation", "ReasoningState"]
