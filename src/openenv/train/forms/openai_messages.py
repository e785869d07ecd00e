"""Conversations as OpenAI's API has them: arguments as JSON, pictures as addresses."""

import base64
import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from openenv.core.documents import read_arguments
from openenv.train.episodes.played_episode import Message, text_of
from openenv.train.tools.contents import Content, blocks_of

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessage

__all__ = ["from_openai", "to_openai"]


def from_openai(message: "ChatCompletionMessage", *, with_calls: bool) -> Message:
    """Write a model's answer as chat templates take it.

    Args:
        message: The answer.
        with_calls: Whether calls of tools belong to it; they do where tools were offered.
    """
    answer: Message = {"role": "assistant", "content": message.content or ""}
    calls = [call for call in message.tool_calls or [] if with_calls and call.type == "function"]
    if calls:
        answer["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": read_arguments(call.function.arguments)},
            }
            for call in calls
        ]
    return answer


def to_openai(messages: Sequence[Message]) -> list[Message]:
    """Write a conversation as the API takes it.

    Args:
        messages: A conversation as chat templates take it: a tool call's arguments are a mapping, and a picture is a
            block of the content.

    Returns:
        The same with arguments as JSON, and pictures as ``image_url``. The pictures of a tool's answer follow it in a
        message of the user, because the API takes none there.

    Example:
        >>> to_openai([{"role": "user", "content": [{"type": "text", "text": "left?"}]}])
        [{'role': 'user', 'content': [{'type': 'text', 'text': 'left?'}]}]
    """
    written: list[Message] = []
    pictures: list[dict[str, Any]] = []
    for message in messages:
        content = _written_content(message["content"])
        if message["role"] == "tool":
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
    # What was no JSON at all would make some servers refuse the whole conversation.
    arguments = function["arguments"] if isinstance(function["arguments"], Mapping) else {}
    return {**call, "function": {**function, "arguments": json.dumps(arguments)}}


def _picture_block(picture: Any) -> dict[str, Any]:
    buffer = BytesIO()
    picture.save(buffer, format="PNG")
    data = base64.b64encode(buffer.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
