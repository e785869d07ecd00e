"""An episode with the conversation in which it was played."""

from dataclasses import dataclass
from typing import Any

from openenv.train.episodes.episode import Episode

__all__ = ["Message", "PlayedEpisode", "Usage", "text_of"]

Message = dict[str, Any]


@dataclass(frozen=True)
class Usage:
    """What the answers of a model took, in one episode.

    Attributes:
        input_tokens: Tokens that the model read, as its server counts them.
        output_tokens: Tokens that it wrote.
        cost_usd: What they cost; ``None`` where its server does not say.
        model_version: The model as its server names it, or the training step of its weights; ``None`` if not known.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    model_version: str | None = None

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum, with the version that was said last."""
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            sum(costs) if costs else None,
            other.model_version or self.model_version,
        )


@dataclass(frozen=True)
class PlayedEpisode:
    """An episode, and the conversation between the environment and its player.

    Attributes:
        index: Its number among the episodes of its request, from 0.
        episode: What happened.
        messages: The conversation as chat templates take it. A tool call's arguments are a mapping.
        tools: The tools that were offered, as chat templates take them; empty where actions are texts.
        usage: What the model's answers took; ``None`` for a player without a model.
    """

    index: int
    episode: Episode
    messages: list[Message]
    tools: list[dict[str, Any]]
    usage: Usage | None = None


def text_of(content: str | list[dict[str, Any]]) -> str:
    """Return a message's content without its pictures.

    Args:
        content: A text, or blocks as chat templates take them.

    Returns:
        The text, or those of the blocks with a line for each.
    """
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")
