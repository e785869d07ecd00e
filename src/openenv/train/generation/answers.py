"""What a model wrote in one turn, and what writes: the least that a rollout asks of any backend."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Answer", "Writer"]


@dataclass
class Answer:
    """What a model wrote in one turn.

    Attributes:
        token_ids: The tokens, with the one that ended the answer if the model wrote one.
        logprobs: The natural logarithm of each token's probability in the distribution that it was drawn from.
        ended: Whether the model ended the answer itself, rather than the limit.
    """

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ended: bool = False


class Writer(Protocol):
    """Writes answers for several texts at once, over several turns.

    Each row is a text of its own, which grows by what it is fed and by what the model writes.
    """

    def feed(self, rows: Sequence[Sequence[int]]) -> None:
        """Append tokens to every row.

        Args:
            rows: The new tokens of each row; a row may get none, unless it is the first feed.
        """
        ...

    def answer(self, limits: Sequence[int], stop_ids: frozenset[int]) -> list[Answer]:
        """Let every row write until it ends its answer or reaches its limit.

        The last token of an answer is not fed; it belongs to the next `feed`.

        Args:
            limits: How many tokens each row may write, at least 1.
            stop_ids: Tokens that end an answer.

        Returns:
            One answer for each row.
        """
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Drop every row but these; the rows are renumbered in the order given."""
        ...
