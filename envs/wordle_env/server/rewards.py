"""The reward of a guess, and the parts that are seen beside it."""

from openenv.core.rubrics import Rubric, WeightedSum

from ..models import WordleAction, WordleObservation
from ..rules import ELSEWHERE, IN_PLACE


class Share(Rubric):
    """The share of a guess's letters that have a mark.

    Args:
        mark: One of the marks of `wordle_env.rules`.
    """

    def __init__(self, mark: str) -> None:
        super().__init__()
        self._mark = mark

    def forward(self, action: WordleAction, observation: WordleObservation) -> float:
        """Count the last guess's marks."""
        return observation.feedback.count(self._mark) / observation.word_length


class Solved(Rubric):
    """1.0 for the guess that finds the word, 0.0 for any other."""

    def forward(self, action: WordleAction, observation: WordleObservation) -> float:
        """Return whether every letter is right."""
        return float(observation.feedback.count(IN_PLACE) == observation.word_length)


def wordle_reward() -> WeightedSum:
    """Return the environment's reward: ``solved`` alone; ``greens`` and ``yellows`` are seen, and do not count."""
    parts = {"solved": Solved(), "greens": Share(IN_PLACE), "yellows": Share(ELSEWHERE)}
    return WeightedSum(parts, {"solved": 1.0, "greens": 0.0, "yellows": 0.0})
