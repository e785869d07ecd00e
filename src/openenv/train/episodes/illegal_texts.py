"""Commonest among the answers of an optimiser step that were no legal action."""

from collections.abc import Iterable

from openenv.records.answers import commonest_texts

__all__ = ["IllegalTexts"]


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
