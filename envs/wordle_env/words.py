"""The word lists, from two packages that work offline.

Secret words come from ``wonderwords``: hand-kept lists of everyday nouns, verbs and adjectives. Left out are those on
its own list of profanities, and those that are rare in film subtitles, by the frequencies of ``pyspellchecker``. Any
word of ``pyspellchecker``'s English dictionary may be guessed.
"""

from dataclasses import dataclass
from functools import cache

from spellchecker import SpellChecker
from wonderwords import RandomWord, is_profanity

from openenv.core.seeding import rng

SHORTEST, LONGEST = 3, 9

# Occurrences in the subtitles that pyspellchecker counted. Below are words like "smolt" and "sprag".
_COMMON = 200


@dataclass(frozen=True)
class WordList:
    """The words of one length, in lower case.

    Attributes:
        secrets: Words that may be the secret, in alphabetical order.
        guesses: Words that may be guessed; all secrets are among them.
    """

    secrets: tuple[str, ...]
    guesses: frozenset[str]

    def secret(self, seed: int | None) -> str:
        """Draw a secret word.

        Args:
            seed: The same seed gives the same word; ``None`` gives any.

        Returns:
            One of ``secrets``.
        """
        # Not seeded like a player's own generator: a player with the same seed must not draw the same word.
        chance = rng(seed, "secret")
        return chance.choice(self.secrets)


@cache
def word_list(length: int) -> WordList:
    """Return the words of a length. The first call takes half a second, further lengths some milliseconds.

    Args:
        length: Letters, from ``SHORTEST`` to ``LONGEST``.

    Returns:
        The words that may be secret, and those that may be guessed.

    Raises:
        ValueError: There is no list for this length.

    Example:
        >>> words = word_list(5)
        >>> "mouse" in words.secrets, "stare" in words.guesses, "zzzzz" in words.guesses
        (True, True, False)
    """
    if not SHORTEST <= length <= LONGEST:
        raise ValueError(f"word_length is {length}; there are words of {SHORTEST} to {LONGEST} letters.")
    frequencies = _frequencies()
    guesses = {word for word in frequencies if len(word) == length and word.isascii() and word.isalpha()}
    everyday = {word for word in _everyday_words() if len(word) == length}
    secrets = {word for word in everyday if frequencies.get(word, 0) > _COMMON and not is_profanity(word)}
    return WordList(secrets=tuple(sorted(secrets)), guesses=frozenset(guesses))


@cache
def _frequencies() -> dict[str, int]:
    return SpellChecker(language="en").word_frequency.dictionary


@cache
def _everyday_words() -> frozenset[str]:
    return frozenset(RandomWord().filter(regex=f"[a-z]{{{SHORTEST},{LONGEST}}}"))
