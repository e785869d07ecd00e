"""The client of the Wordle environment."""

from typing import Any

from openenv.core.client_tools import ToolClient
from openenv.core.client_types import StepResult

from .models import WordleAction, WordleObservation, WordleState
from .textarena import Board, is_textarena


class WordleEnv(ToolClient[WordleAction, WordleObservation, WordleState]):
    """Play Wordle on a server: one of this environment, or one of TextArena that serves Wordle.

    TextArena does not refuse a guess that is no word: the observation's ``text`` says what was wrong with it, the board
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
        # What these hold is replaced and never changed: further sessions of this client begin as its copies.
        self.trajectory: list[StepResult[WordleObservation]] = []
        self._board: Board | None = None  # of a TextArena server
        self._sent = ""

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

    def _step_payload(self, action: WordleAction) -> dict[str, Any]:
        payload = super()._step_payload(action)
        if self._board is None:
            return payload
        self._sent = action.word.strip().lower()
        return {"message": f"[{self._sent}]"}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[WordleObservation]:
        if is_textarena(payload.get("observation")):
            payload = self._translated(payload)
        result = super()._parse_result(payload)
        # Only a reset has no reward: a refused guess is an error, not a result.
        self.trajectory = [] if result.reward is None else [*self.trajectory, result]
        return result

    def _translated(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The answer of a TextArena server as one of this environment."""
        self._board = (self._board or Board()).after(payload, self._sent)
        reward = None if self._board.is_untouched else float(self._board.solved)
        return {**payload, "observation": self._board.fields(), "reward": reward}

    def _parse_state(self, payload: dict[str, Any]) -> WordleState:
        if self._board is None:
            return super()._parse_state(payload)
        return WordleState(
            episode_id=payload.get("episode_id"),
            step_count=payload.get("step_count", 0),
            word_length=self._board.word_length,
            guesses=list(self._board.guesses),
            solved=self._board.solved,
        )
