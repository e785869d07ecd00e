"""The Wordle environment: episodes over the rules and the word lists."""

from typing import Annotated, Any, ClassVar
from uuid import uuid4

from pydantic import Field

from openenv.core.env_server.interfaces import Environment
from openenv.core.exceptions import IllegalActionError, ResetNeededError

from ..models import WordleAction, WordleObservation, WordleState
from ..rules import MAX_GUESSES, Game, objection
from ..words import LONGEST, SHORTEST, word_list
from .board import as_html, coloured, in_words
from .rewards import wordle_reward


class WordleEnvironment(Environment[WordleAction, WordleObservation, WordleState]):
    """Find the secret word in six guesses. The reward is 1.0 for the guess that finds it, and 0.0 for any other.

    A guess of the wrong length, of no known word, or made before, is refused and does not count.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    DEFAULT_MAX_SESSIONS: ClassVar[int] = 8
    BLOCKING: ClassVar[bool] = False
    REQUIRES_RESET: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__(rubric=wordle_reward())
        self._episode_id: str | None = None
        self._game: Game | None = None

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        word_length: Annotated[int, Field(ge=SHORTEST, le=LONGEST)] = 5,
    ) -> WordleObservation:
        """Choose a secret word and start an episode.

        Args:
            seed: The same seed gives the same secret word, with the same word lists; ``None`` gives any.
            episode_id: Name of the episode; a new one is made up where there is none.
            word_length: Letters of the secret word.

        Returns:
            The empty board.
        """
        words = word_list(word_length)
        self._episode_id = episode_id or str(uuid4())
        self._game = Game(words.secret(seed))
        return self._observation(self._game)

    def step(self, action: WordleAction) -> WordleObservation:
        """Guess a word.

        Args:
            action: The guess, in any case; blanks around it do not matter.

        Returns:
            The board with the guess and its feedback.

        Raises:
            IllegalActionError: The guess has the wrong length, is no known word, or was made before. It is not counted.
            ResetNeededError: There is no episode, or it is over.
        """
        game = self._game
        if game is None or game.over:
            raise ResetNeededError("There is no running episode to guess in; call reset first.")
        guess = action.word.strip().lower()
        refusal = objection(game, guess, word_list(len(game.secret)).guesses)
        if refusal is not None:
            raise IllegalActionError(refusal)
        self._game = game.after(guess)
        observation = self._observation(self._game)
        observation.reward = self._apply_rubric(action, observation)
        return observation

    @property
    def state(self) -> WordleState:
        """The guesses so far. The secret word is not in it."""
        if self._game is None:
            return WordleState()
        return WordleState(
            episode_id=self._episode_id,
            step_count=len(self._game.guesses),
            word_length=len(self._game.secret),
            max_guesses=MAX_GUESSES,
            guesses=[guess.upper() for guess in self._game.guesses],
            solved=self._game.solved,
        )

    def render(self) -> str:
        """Return the board in the colours of a terminal."""
        return "" if self._game is None else coloured(self._game)

    @staticmethod
    def render_web(observation: dict[str, Any]) -> str:
        """Return the board for the page, of an episode that is played, followed or on record."""
        return as_html(observation)

    def _observation(self, game: Game) -> WordleObservation:
        feedbacks = game.feedbacks
        return WordleObservation(
            done=game.over,
            word_length=len(game.secret),
            feedback=feedbacks[-1] if feedbacks else "",
            guesses_left=game.guesses_left,
            guesses=[guess.upper() for guess in game.guesses],
            feedbacks=feedbacks,
            target_word=game.secret.upper() if game.over else None,
            text=in_words(game),
        )
