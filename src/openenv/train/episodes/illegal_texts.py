"""Commonest among the answers that were no legal action."""

from collections import Counter
from collections.abc import Iterable, Mapping

__all__ = ["IllegalTexts", "commonest", "commonest_texts"]

MAX_TEXTS = 5
LONGEST_TEXT = 80


def commonest_texts(texts: Iterable[str]) -> dict[str, int]:
    """Count the commonest texts, long ones by their beginnings.

    Example:
        >>> commonest_texts(["jump", "fly", "jump"])
        {'jump': 2, 'fly': 1}
    """
    return commonest(Counter(map(_shortened, texts)))


def commonest(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the commonest of texts that were counted, the commonest first.

    Example:
        >>> commonest({"fly": 1, "jump": 2})
        {'jump': 2, 'fly': 1}
    """
    return dict(Counter(counts).most_common(MAX_TEXTS))


class IllegalTexts:
    """Illegal answers of an optimiser step, by environment."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}

    def add(self, environment: str, texts: Iterable[str]) -> None:
        """Add answers of an environment, whose name is empty where there is one only."""
        self._texts.setdefault(environment, []).extend(texts)

    def take(self) -> dict[str, dict[str, int]]:
        """Return the commonest since the last call, as metrics: ``episode/illegal_texts``; nothing where none is."""
        gathered, self._texts = self._texts, {}
        return {
            f"episode/{name}/illegal_texts" if name else "episode/illegal_texts": commonest_texts(texts)
            for name, texts in gathered.items()
            if texts
        }


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."
