"""Completion of one turn, and its generator: the least that a rollout needs of transformers or vLLM."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Completion", "Generator"]


@dataclass
class Completion:
    """Tokens that a model wrote in one turn.

    Attributes:
        token_ids: The tokens, with the one that ended it if the model wrote one.
        logprobs: The natural logarithm of each token's probability in the distribution that it was drawn from.
        ended: Whether the model ended it itself, rather than the limit.
    """

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ended: bool = False

    def is_over(self, limit: int) -> bool:
        """Return whether the completion has ended, or has as many tokens as its limit."""
        return self.ended or len(self.token_ids) >= limit


class Generator(Protocol):
    """Generator of completions of several texts at once, over several turns, each of them a row that grows."""

    def feed(self, rows: Sequence[Sequence[int]]) -> None:
        """Append the new tokens of each row to it, none to some, but not in the first feed."""
        ...

    def generate(self, limits: Sequence[int], stop_ids: frozenset[int]) -> list[Completion]:
        """Return a completion for each row, of 1 to ``limits`` tokens; its last token belongs to the next `feed`."""
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Drop every row but these; the rows are renumbered in the order given."""
        ...
