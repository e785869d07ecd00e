"""A player that uses the feedback: it guesses only words that could still be the secret."""

from collections.abc import Callable

from openenv.core.seeding import rng

from .models import WordleAction, WordleObservation
from .rules import feedback
from .words import WordList, word_list


class WordlePlayer:
    """Guesses a common word that agrees with every feedback so far, any of them with equal chance.

    Args:
        seed: The same seed makes the same choices.
    """

    def __init__(self, seed: int) -> None:
        self._random = rng(seed, "player")

    def __call__(self, observation: WordleObservation) -> WordleAction:
        """Choose the next guess.

        Args:
            observation: The board.

        Returns:
            The guess.
        """
        return WordleAction(word=self._random.choice(possible_secrets(observation, word_list(observation.word_length))))


def possible_secrets(observation: WordleObservation, words: WordList) -> list[str]:
    """List the words that could be the secret.

    Args:
        observation: The board.
        words: The words of the secret's length.

    Returns:
        The common words that agree with the board, in alphabetical order; if none does, as with a server that has other
        lists, all words that do.
    """
    return _agreeing(observation, words.secrets) or _agreeing(observation, sorted(words.guesses))


def _agreeing(observation: WordleObservation, words: list[str] | tuple[str, ...]) -> list[str]:
    board = [(guess.lower(), marks) for guess, marks in zip(observation.guesses, observation.feedbacks, strict=True)]
    return [word for word in words if all(feedback(word, guess) == marks for guess, marks in board)]


def make_player(seed: int) -> Callable[[WordleObservation], WordleAction]:
    """Make a player for one episode.

    Args:
        seed: Of its random choices.

    Returns:
        A function from observations to actions.
    """
    return WordlePlayer(seed)
