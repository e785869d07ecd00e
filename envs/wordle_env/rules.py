"""The rules of Wordle, as pure functions on lower-case words."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

MAX_GUESSES = 6

IN_PLACE = "🟩"
ELSEWHERE = "🟨"
ABSENT = "⬛"


def feedback(secret: str, guess: str) -> str:
    """Mark each letter of a guess.

    A letter that the guess has more often than the secret is marked only as often as the secret has it: first where it
    is in its place, then from the left.

    Args:
        secret: The secret word.
        guess: A word of the same length.

    Returns:
        One of 🟩 (in its place), 🟨 (elsewhere in the word) and ⬛ (neither) for each letter.

    Raises:
        ValueError: The words differ in length.

    Example:
        >>> feedback("mouse", "house")
        '⬛🟩🟩🟩🟩'
        >>> feedback("abbey", "babes")
        '🟨🟨🟩🟩⬛'
    """
    pairs = list(zip(secret, guess, strict=True))
    unplaced = Counter(letter for letter, guessed in pairs if letter != guessed)
    marks = []
    for letter, guessed in pairs:
        if letter == guessed:
            marks.append(IN_PLACE)
        elif unplaced[guessed] > 0:
            unplaced[guessed] -= 1
            marks.append(ELSEWHERE)
        else:
            marks.append(ABSENT)
    return "".join(marks)


@dataclass(frozen=True)
class Game:
    """A position: the secret word and the guesses made.

    Attributes:
        secret: The secret word.
        guesses: The guesses so far.
    """

    secret: str
    guesses: tuple[str, ...] = ()

    @cached_property
    def feedbacks(self) -> list[str]:
        """The marks of each guess."""
        return [feedback(self.secret, guess) for guess in self.guesses]

    @property
    def guesses_left(self) -> int:
        """Guesses that remain."""
        return 0 if self.solved else MAX_GUESSES - len(self.guesses)

    @property
    def solved(self) -> bool:
        """Return whether the secret word was found."""
        return self.guesses[-1:] == (self.secret,)

    @property
    def over(self) -> bool:
        """Return whether no further guess can be made."""
        return self.solved or len(self.guesses) >= MAX_GUESSES

    def after(self, guess: str) -> "Game":
        """Return the position after a guess that ``objection`` has nothing against."""
        return replace(self, guesses=(*self.guesses, guess))


def objection(game: Game, guess: str, allowed: Collection[str]) -> str | None:
    """Return the reason why a guess cannot be made.

    Args:
        game: The position.
        guess: The guess.
        allowed: The words that may be guessed.

    Returns:
        A sentence for the player, or ``None`` for a legal guess.
    """
    length = len(game.secret)
    if len(guess) != length:
        return f"{guess!r} has {len(guess)} characters; guess a word of {length} letters."
    if guess in game.guesses:
        return f"{guess!r} was guessed before; guess another word."
    if guess not in allowed:
        return f"{guess!r} is not in the word list; guess an English word of {length} letters."
    return None
