"""Code feedback: write a Python function that passes tests."""

from .client import CodeFeedbackEnv
from .models import CodeAction, CodeFeedbackState, CodeObservation

__all__ = ["CodeAction", "CodeFeedbackEnv", "CodeFeedbackState", "CodeObservation"]
