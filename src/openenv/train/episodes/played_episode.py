"""An episode with the conversation in which it was played."""

from dataclasses import dataclass
from typing import Any

from openenv.train.episodes.episode import Episode

__all__ = ["Message", "PlayedEpisode", "text_of"]

Message = dict[str, Any]


@dataclass(frozen=True)
class PlayedEpisode:
    """An episode, and the conversation between the environment and its player.

    Attributes:
        index: Its number among the episodes of its request, from 0.
        episode: What happened.
        messages: The conversation as chat templates take it. A tool call's arguments are a mapping.
        tools: The tools that were offered, as chat templates take them; empty where actions are texts.
    """

    index: int
    episode: Episode
    messages: list[Message]
    tools: list[dict[str, Any]]


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
