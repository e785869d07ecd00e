"""What a model writes in one turn, and what generates it: the least that a rollout needs of transformers or vLLM."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Completion", "Generator"]


@dataclass
class Completion:
    """What a model wrote in one turn.

    Attributes:
        token_ids: The tokens, with the one that ended it if the model wrote one.
        logprobs: The natural logarithm of each token's probability in the distribution that it was drawn from.
        ended: Whether the model ended it itself, rather than the limit.
    """

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ended: bool = False

    def is_over(self, limit: int) -> bool:
        """Whether it has ended, or has as many tokens as it may have."""
        return self.ended or len(self.token_ids) >= limit


class Generator(Protocol):
    """Generates completions of several texts at once, over several turns.

    Each row is a text of its own, which grows by what it is fed and by what the model writes.
    """

    def feed(self, rows: Sequence[Sequence[int]]) -> None:
        """Append tokens to every row.

        Args:
            rows: The new tokens of each row; a row may get none, unless it is the first feed.
        """
        ...

    def generate(self, limits: Sequence[int], stop_ids: frozenset[int]) -> list[Completion]:
        """Let every row be written until its completion ends or reaches its limit.

        The last token of a completion is not fed; it belongs to the next `feed`.

        Args:
            limits: How many tokens each row may write, at least 1.
            stop_ids: Tokens that end a completion.

        Returns:
            One completion for each row.
        """
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Drop every row but these; the rows are renumbered in the order given."""
        ...
