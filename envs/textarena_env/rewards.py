"""Rewards for single moves, from what a player wrote and the game answered."""

import re
from collections import Counter
from typing import Protocol

from .models import TRANSCRIPT, TextArenaAction, TextArenaObservation

WORD_LENGTH = 5
_BRACKETED = re.compile(rf"\[([A-Za-z]{{{WORD_LENGTH}}})\]")
_MARKS = re.compile(r"[GYX]+")


def extract_guess(text: str) -> str:
    """Find the word that a model guesses in Wordle.

    Args:
        text: What the model wrote.

    Returns:
        The first five letters in square brackets, in lower case; where there are none, the text's first five letters;
        ``[dunno]`` where it has fewer. Always with the brackets.

    Example:
        >>> extract_guess("I think it is [CRANE] or [crate].")
        '[crane]'
        >>> extract_guess("crane!"), extract_guess("???")
        ('[crane]', '[dunno]')
    """
    found = _BRACKETED.search(text)
    if found is not None:
        return f"[{found[1].lower()}]"
    letters = "".join(letter for letter in text.lower() if "a" <= letter <= "z")
    return f"[{letters[:WORD_LENGTH]}]" if len(letters) >= WORD_LENGTH else "[dunno]"


def extract_wordle_feedback(observation: TextArenaObservation) -> str:
    r"""Find the feedback to the last guess.

    Args:
        observation: What the game answered, with a history of either kind.

    Returns:
        What follows the first ``Feedback:`` of the last message that has one; empty where none has.

    Example:
        >>> said = TextArenaMessage(sender_id=-1, content="Feedback:\nS T A R E\nX X G X Y", category="GAME_MESSAGE")
        >>> extract_wordle_feedback(TextArenaObservation(prompt="", messages=[said]))
        'S T A R E\nX X G X Y'
    """
    for message in reversed(observation.messages):
        _, found, feedback = message.content.partition("Feedback:")
        if found:
            return feedback.strip()
    return ""


def extract_feedback_counts(feedback: str) -> tuple[int, int]:
    r"""Count the green and the yellow letters of the last guess.

    Args:
        feedback: What `extract_wordle_feedback` found.

    Returns:
        Letters in their place, and letters elsewhere in the word, of the last line of marks; ``(0, 0)`` where there is
        none, or nothing before it.

    Example:
        >>> extract_feedback_counts("S T A R E\nX Y G X Y")
        (1, 2)
    """
    lines = [line.strip() for line in feedback.strip().splitlines() if line.strip()]
    if len(lines) < 2:
        return 0, 0
    for line in reversed(lines):
        marks = "".join(line.split())
        if _MARKS.fullmatch(marks):
            return marks.count("G"), marks.count("Y")
    return 0, 0


class RewardProvider(Protocol):
    """Scores each move of an episode under several names."""

    def reset(self) -> None:
        """Forget the episode."""

    def compute(self, *, action: TextArenaAction, observation: TextArenaObservation) -> dict[str, float]:
        """Score a move.

        Args:
            action: What the player wrote.
            observation: What came back.

        Returns:
            The scores by their names.
        """
        ...


class WordleRewards:
    """Scores guesses in Wordle.

    The names are ``wordle.greens`` and ``wordle.yellows``, the shares of letters in their place and elsewhere in the
    word; ``wordle.repetitions``, 1 less how often the word was guessed before; ``wordle.correct``, the step's reward.
    """

    def __init__(self) -> None:
        self._guesses: Counter[str] = Counter()
        self._read = 0  # characters of a cumulative transcript

    def reset(self) -> None:
        """Forget the guesses."""
        self._guesses.clear()
        self._read = 0

    def compute(self, *, action: TextArenaAction, observation: TextArenaObservation) -> dict[str, float]:
        """Score a guess.

        Args:
            action: The guess, with or without brackets.
            observation: What came back.

        Returns:
            The four scores. The word itself is all green, though the game's text is no more than that it is over; a
            refused guess has neither green nor yellow letters.
        """
        guess, correct = extract_guess(action.message), float(observation.reward or 0.0)
        greens, yellows = (1.0, 0.0) if correct >= 1.0 else self._shares(observation)
        earlier = self._guesses[guess]
        self._guesses[guess] += 1
        return {
            "wordle.greens": greens,
            "wordle.yellows": yellows,
            "wordle.repetitions": 1.0 - earlier,
            "wordle.correct": correct,
        }

    def _shares(self, observation: TextArenaObservation) -> tuple[float, float]:
        """Return the shares of green and yellow letters in the answer to this guess."""
        said = "\n".join(message.content for message in observation.messages)
        if [message.category for message in observation.messages] == [TRANSCRIPT]:
            said, self._read = said[self._read :], len(said)
        marked = said.rpartition("Feedback:")
        greens, yellows = extract_feedback_counts(marked[2] if marked[1] else "")
        return greens / WORD_LENGTH, yellows / WORD_LENGTH


def build_reward_providers(env_id: str) -> list[RewardProvider]:
    """Make what scores the moves of a game.

    Args:
        env_id: The game's id.

    Returns:
        `WordleRewards` for Wordle; nothing for the other games.

    Example:
        >>> len(build_reward_providers("Wordle-v0-hardcore")), len(build_reward_providers("TicTacToe-v0"))
        (1, 0)
    """
    return [WordleRewards()] if env_id.startswith("Wordle-") else []
