"""Actions and observations of Wordle."""

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State


class WordleAction(Action):
    """Guess a word.

    Attributes:
        word: The word, in upper or lower case.
    """

    word: str = Field(min_length=1, max_length=32, description="An English word of the secret word's length")


class WordleObservation(Observation):
    """The board after a guess.

    Attributes:
        word_length: Letters in the secret word.
        feedback: One mark for each letter of the last guess: 🟩 in its place, 🟨 elsewhere in the word, ⬛ not (or not
            as often) in the word. Empty after a reset.
        guesses_left: Guesses that remain.
        guesses: The guesses so far in upper case, the first one first.
        feedbacks: The marks of each guess.
        target_word: The secret word in upper case once the episode is over, ``None`` before.
        text: The same in words, for a language model.
    """

    word_length: int = Field(ge=1)
    feedback: str = ""
    guesses_left: int = Field(ge=0)
    guesses: list[str] = Field(default_factory=list)
    feedbacks: list[str] = Field(default_factory=list)
    target_word: str | None = None
    text: str = ""


class WordleState(State):
    """Where the episode stands. It never holds the secret word.

    Attributes:
        word_length: Letters in the secret word.
        max_guesses: Guesses in an episode.
        guesses: The guesses so far in upper case.
        solved: Whether the last guess was the secret word.
    """

    word_length: int = 5
    max_guesses: int = 6
    guesses: list[str] = Field(default_factory=list)
    solved: bool = False
