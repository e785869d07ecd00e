"""The client of the Wordle environment."""

from typing import Any

from openenv.core.client_types import StepResult

from .models import WordleObservation
from .textarena import TextArenaWordleClient


class WordleEnv(TextArenaWordleClient):
    """Play Wordle on a server: one of this environment, or one of TextArena that serves Wordle.

    TextArena does not refuse a guess that is no word: the observation's ``text`` has the fault, the board
    stays, and the second one in a row ends the episode.

    Trainers take it for an environment with one tool, ``guess``.

    Attributes:
        trajectory: The results of the episode's steps so far; a reset empties it.

    Example::

        async with WordleEnv(base_url="http://localhost:8000") as env:
            await env.reset(seed=7)
            result = await env.step(WordleAction(word="stare"))
            print(result.observation.feedback, result.reward)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # It is replaced and never changed: further sessions of this client begin as its copies.
        self.trajectory: list[StepResult[WordleObservation]] = []

    def guess(self, word: str) -> str:
        """Guess the secret word.

        Args:
            word: An English word of the secret word's length.

        Returns:
            The board in words, or why the guess was refused.
        """
        return self._act(word=word)

    def _result_text(self, result: StepResult[WordleObservation]) -> str:
        return result.observation.text

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[WordleObservation]:
        result = super()._parse_result(payload)
        # Only a reset has no reward: a refused guess is an error, not a result.
        self.trajectory = [] if result.reward is None else [*self.trajectory, result]
        return result
