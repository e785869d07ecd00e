"""Conversations as OpenAI's API has them: arguments as JSON, pictures as addresses."""

import base64
import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from openenv.train.episodes.played_episode import Message, text_of
from openenv.train.tools.contents import Content, blocks_of

__all__ = ["to_openai"]

# Chat templates read a model's reasoning under this name. It stands in records, and is sent to no server: the API has
# no such field, and some refuse it.
_REASONING = "reasoning_content"


def to_openai(messages: Sequence[Message]) -> list[Message]:
    """Return a conversation of chat templates with calls' arguments as JSON, and pictures as ``image_url``.

    Example:
        >>> to_openai([{"role": "user", "content": [{"type": "text", "text": "left?"}]}])
        [{'role': 'user', 'content': [{'type': 'text', 'text': 'left?'}]}]
    """
    written: list[Message] = []
    pictures: list[dict[str, Any]] = []
    for message in ({name: each[name] for name in each if name != _REASONING} for each in messages):
        content = _written_content(message["content"])
        if message["role"] == "tool":
            # The API allows no pictures in a tool's answer: they follow in a message of the user.
            pictures += [block for block in blocks_of(content) if block["type"] != "text"]
            written.append({**message, "content": text_of(content)})
            continue
        if pictures:
            written.append({"role": "user", "content": pictures})
            pictures = []
        written.append({**message, "content": content})
        if "tool_calls" in message:
            written[-1]["tool_calls"] = [_written_call(call) for call in message["tool_calls"]]
    return [*written, {"role": "user", "content": pictures}] if pictures else written


def _written_content(content: Content) -> Content:
    if isinstance(content, str):
        return content
    return [_picture_block(block["image"]) if block["type"] == "image" else block for block in content]


def _written_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    # Arguments that are no JSON would make some servers refuse the whole conversation.
    arguments = function["arguments"] if isinstance(function["arguments"], Mapping) else {}
    return {**call, "function": {**function, "arguments": json.dumps(arguments)}}


def _picture_block(picture: Any) -> dict[str, Any]:
    buffer = BytesIO()
    picture.save(buffer, format="PNG")
    data = base64.b64encode(buffer.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
