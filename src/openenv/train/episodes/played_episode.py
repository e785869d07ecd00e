"""An episode with the conversation in which it was played."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openenv.core.wire.results import known_sum
from openenv.train.episodes.episode import Episode

__all__ = ["NO_USAGE", "Message", "PlayedEpisode", "Usage", "text_of"]

Message = dict[str, Any]


@dataclass(frozen=True)
class Usage:
    """Tokens and cost of a model's answers in one episode; ``None`` where they are not known of one of the answers.

    Attributes:
        input_tokens: Tokens that the model read, as its server counts them.
        output_tokens: Tokens that it wrote.
        cost_usd: Their cost in US dollars.
        model_version: The model as its server names it, or the training step of its weights; ``None`` if not known.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    model_version: str | None = None

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum, with the last known version; of an unknown number there is no sum."""
        return Usage(
            known_sum(self.input_tokens, other.input_tokens),
            known_sum(self.output_tokens, other.output_tokens),
            known_sum(self.cost_usd, other.cost_usd),
            other.model_version or self.model_version,
        )


NO_USAGE = Usage(0, 0, 0.0)
"""Usage of an episode without an answer."""


@dataclass(frozen=True)
class PlayedEpisode:
    """Episode, and the conversation between the environment and its player.

    Attributes:
        index: Its number among the episodes of its request, from 0.
        episode: The record.
        messages: The conversation as chat templates read it, all that the player was shown and answered. A tool call's
            arguments are a mapping. What comes after the last answer was shown to no player.
        tools: The tools that were offered, as chat templates read them; empty where actions are texts.
        usage: Tokens and cost of the model's answers; ``None`` for a player without a model.
        token_texts: The texts of the episode's tokens by their ids; empty where they are not known.
    """

    index: int
    episode: Episode
    messages: list[Message]
    tools: list[dict[str, Any]]
    usage: Usage | None = None
    token_texts: Mapping[int, str] = field(default_factory=dict)

    @property
    def spent(self) -> dict[str, Any]:
        """Tokens and cost of the model's answers where known, and what the episode has used beside, as in a line."""
        usage = self.usage or Usage()
        spent = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "cost_usd": usage.cost_usd}
        return {name: value for name, value in spent.items() if value is not None} | self.episode.spent


def text_of(content: str | list[dict[str, Any]]) -> str:
    """Return the text of a message's content, with a line for each block and without pictures."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")
