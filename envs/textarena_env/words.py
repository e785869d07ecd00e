"""Words for the games, from two packages that work offline.

TextArena takes its words, and what part of speech they are, from data that NLTK downloads. Here they come from
``pyspellchecker`` (an English dictionary with the frequencies of its words in film subtitles) and ``wonderwords``
(hand-kept lists of everyday words, sorted into nouns, adjectives and verbs).
"""

from collections.abc import Sequence
from functools import cache

from spellchecker import SpellChecker
from wonderwords import RandomWord, is_profanity

# Occurrences in the subtitles that pyspellchecker counted. Below are words like "smolt" and "sprag".
_COMMON = 200


@cache
def english_words() -> tuple[str, ...]:
    """Return the words of the dictionary and the everyday ones, in lower case and alphabetical order."""
    known = {word for word in _frequencies() if word.isascii() and word.isalpha()}
    return tuple(sorted(known.union(_everyday_words())))


@cache
def common_words() -> tuple[str, ...]:
    """Return the everyday words that are common and no profanities, in lower case and alphabetical order."""
    frequencies = _frequencies()
    return tuple(word for word in sorted(_everyday_words()) if frequencies.get(word, 0) > _COMMON)


@cache
def nouns() -> frozenset[str]:
    """Return the everyday nouns in lower case."""
    return frozenset(_everyday(["noun"]))


def words(fileids: str | None = None) -> tuple[str, ...]:
    """Stand in for ``nltk.corpus.words.words``.

    Args:
        fileids: ``en-basic`` for the common words; anything else for all of them.

    Returns:
        The words.
    """
    return common_words() if fileids == "en-basic" else english_words()


def pos_tag(tokens: Sequence[str]) -> list[tuple[str, str]]:
    """Stand in for ``nltk.pos_tag``, by which the games see whether a word is a noun.

    Args:
        tokens: Words.

    Returns:
        Each with ``NN``, the tag of a noun in the singular, or ``X``.
    """
    known = nouns()
    if len(tokens) == 1:  # a game of Wordle tags thousands of words when it begins, one at a time
        (token,) = tokens
        return [(token, "NN" if token in known else "X")]
    return [(token, "NN" if token in known else "X") for token in tokens]


@cache
def _frequencies() -> dict[str, int]:
    return SpellChecker(language="en").word_frequency.dictionary


@cache
def _everyday_words() -> frozenset[str]:
    return frozenset(_everyday(None))


def _everyday(categories: list[str] | None) -> list[str]:
    found = RandomWord().filter(include_categories=categories, regex="[a-z]{2,}")
    return [word for word in found if not is_profanity(word)]
