"""Messages of a conversation, as chat templates take them."""

from typing import Any

__all__ = ["Content", "Message", "blocks_of", "joined", "text_of"]

Message = dict[str, Any]
"""A role, the content, and the calls of tools, whose arguments are mappings."""

Content = str | list[dict[str, Any]]
"""Text, or blocks where there are pictures: ``{"type": "text", "text": ...}`` and ``{"type": "image", "image": ...}``,
with an image of Pillow."""


def text_of(content: Content) -> str:
    """Return content without its pictures, with a line for each block of text."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def blocks_of(content: Content) -> list[dict[str, Any]]:
    """Return content as blocks."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def joined(content: Content, more: Content) -> Content:
    """Put content behind other content, as TRL does with a prompt and an observation."""
    if isinstance(content, str) and isinstance(more, str):
        return content + more
    return [*blocks_of(content), *blocks_of(more)]
