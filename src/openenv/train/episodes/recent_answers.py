"""Answers in the last batches of a training with TRL, for a warning at its end."""

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from openenv.records.answers import CALL_REMEDIES, AnswerCounts, AnswerRule

__all__ = ["RecentAnswers"]

BATCHES = 10
"""Batches that are judged together: a model may learn to answer legally."""


class RecentAnswers:
    """Counts of answers in the last batches, each episode as a line of a `Collection` has them."""

    def __init__(self) -> None:
        self._batches: deque[list[Mapping[str, Any]]] = deque(maxlen=BATCHES)

    def add(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Add the episodes of a batch."""
        self._batches.append(list(lines))

    def drain(self, rule: AnswerRule) -> list[str]:
        """Return the warnings of what the answers spoil, and forget these."""
        counts = AnswerCounts.of_lines(chain.from_iterable(self._batches))
        self._batches.clear()
        return [text for _, text in counts.warnings(rule, CALL_REMEDIES)]
