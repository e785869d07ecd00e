"""The reward of a guess in Wordle, and the parts that are seen beside it."""

from collections.abc import Mapping

from openenv.core.rubrics import Rubric

from ..models import TextArenaAction, TextArenaObservation
from ..rewards import WordleRewards

_CORRECT = "wordle.correct"
_SEEN = ("wordle.greens", "wordle.yellows", "wordle.repetitions")


class Signal(Rubric):
    """One of the scores of a guess.

    Attributes:
        value: The last guess's.
    """

    value = 0.0

    def forward(self, action: TextArenaAction, observation: TextArenaObservation) -> float:
        """Return the value."""
        return self.value


class WordleReward(Rubric):
    """``wordle.correct`` alone; the other scores of `WordleRewards` are seen, and do not count."""

    def __init__(self) -> None:
        super().__init__()
        self._scores = WordleRewards()
        for name in (*_SEEN, _CORRECT):
            setattr(self, name, Signal())

    def component_weights(self) -> Mapping[str, float]:
        """Return what each score adds."""
        return {_CORRECT: 1.0, **dict.fromkeys(_SEEN, 0.0)}

    def forward(self, action: TextArenaAction, observation: TextArenaObservation) -> float:
        """Score a guess.

        Args:
            action: The guess.
            observation: What came back, with the game's reward.
        """
        scores = self._scores.compute(action=action, observation=observation)
        for name, signal in self.named_children():
            assert isinstance(signal, Signal)
            signal.value = scores[name]
            signal(action, observation)
        return scores[_CORRECT]

    def reset(self) -> None:
        """Forget the guesses."""
        self._scores.reset()
