"""What a model is shown of results, as text or with pictures."""

import base64
import binascii
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic_core import to_json

from openenv.adapters.text import observation_text
from openenv.core.client.tools import refusal_text
from openenv.core.client_types import StepResult
from openenv.core.exceptions import ConfigurationError

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Content", "call_content", "call_problem", "refusal_text"]

# Fields of an observation that say how a call went, not what it gave.
_OF_CALLS = frozenset({"tool_name", "result", "error"})
_NOT_SHOWN = frozenset({"done", "reward", "metadata"})
_DATA_URL = re.compile(r"data:image/[\w.+-]+;base64,")
# How base64 of a PNG, JPEG, GIF or WebP image begins.
_IMAGE_STARTS = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR")
# Screens have more (the smallest in use are 64 pixels wide), boards and maps of cells fewer: MiniGrid's largest is 25
# cells wide, each of three small numbers.
_LEAST_PIXELS_ASIDE = 64

Content = str | list[dict[str, Any]]


def call_content(result: StepResult[Any]) -> Content:
    """Write a result for a model: of a tool's call, of any other step, or of a reset.

    Args:
        result: The result.

    Returns:
        Text; or blocks as TRL takes them where there are pictures: ``{"type": "text", "text": ...}`` and
        ``{"type": "image", "image": ...}`` with an image of Pillow.

    Raises:
        ConfigurationError: There are pictures, and Pillow is not installed.
    """
    fields = _fields(result.observation)
    if fields.get("tool_name") and "result" in fields:
        return _result_content(fields)
    if "tool_name" in fields:  # of a reset, of an environment whose observations are all of tools
        fields = {name: value for name, value in fields.items() if name not in _OF_CALLS}
    pictures = {name: found for name, value in fields.items() if (found := _pictures(value))}
    shown = {name: value for name, value in fields.items() if name not in pictures}
    prompt = shown.get("prompt")
    only_prompt = isinstance(prompt, str) and not shown.keys() - _NOT_SHOWN - {"prompt"}
    return _content(str(prompt) if only_prompt else observation_text(shown), [*_all(pictures.values())])


def call_problem(result: StepResult[Any]) -> str | None:
    """Say why a tool's call gave no result, for the model; ``None`` where it gave one.

    Args:
        result: The result of the step.
    """
    fields = _fields(result.observation)
    error = fields.get("error")
    if error is None or not fields.get("tool_name") or "result" not in fields:
        return None
    message = error.get("message") if isinstance(error, Mapping) else error
    return message if isinstance(message, str) else _json_text(error)


def _fields(observation: Any) -> Mapping[str, Any]:
    if isinstance(observation, BaseModel):
        return observation.model_dump(mode="json")
    return observation if isinstance(observation, Mapping) else {"text": str(observation)}


def _result_content(fields: Mapping[str, Any]) -> Content:
    """Write what a tool gave, or what went wrong."""
    if fields.get("error") is not None:
        error = fields["error"]
        message = error.get("message") if isinstance(error, Mapping) else error
        return message if isinstance(message, str) else _json_text(error)
    value = fields["result"]
    blocks = _mcp_blocks(value)
    if blocks is None:
        pictures = _pictures(value)
        return _content("", pictures) if pictures else _json_text(value)
    text = "\n".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    images = [str(block.get("data", "")) for block in blocks if block.get("type") == "image"]
    return _content(text, [*_all(_pictures(image) for image in images)])


def _mcp_blocks(value: Any) -> list[Mapping[str, Any]] | None:
    """Return the blocks of a result that MCP's own server library made; ``None`` where it is none."""
    if not isinstance(value, Mapping) or not value.keys() >= {"content", "structured_content", "data", "is_error"}:
        return None
    blocks = value["content"]
    if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
        return None
    return blocks


def _json_text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value).decode()


def _content(text: str, pictures: Sequence["Image"]) -> Content:
    if not pictures:
        return text
    written = [{"type": "text", "text": text}] if text else []
    return [*written, *({"type": "image", "image": picture} for picture in pictures)]


def _all(lists: Any) -> Iterator["Image"]:
    for each in lists:
        yield from each


def _pictures(value: Any) -> list["Image"]:
    """Return the picture, or the list of pictures, that a field holds; nothing where it holds something else."""
    if isinstance(value, str):
        return _encoded_picture(value)
    if isinstance(value, Mapping):
        kind, content = value.get("media_type"), value.get("content")
        is_image = isinstance(kind, str) and kind.startswith("image/") and isinstance(content, str)
        return _encoded_picture(str(content)) if is_image else []
    if not isinstance(value, list) or not value:
        return []
    if all(isinstance(each, str) for each in value):
        found = [_encoded_picture(each) for each in value]
        return [*_all(found)] if all(found) else []
    return _pixels_picture(value)


def _encoded_picture(text: str) -> list["Image"]:
    encoded = _DATA_URL.sub("", text, count=1)
    if not encoded.startswith(_IMAGE_STARTS):
        return []
    image = _pillow()
    try:
        picture = image.open(io.BytesIO(base64.b64decode(encoded, validate=True)))
        picture.load()
    except (binascii.Error, OSError, SyntaxError):  # the last for a broken PNG
        return []
    return [picture if picture.mode in ("RGB", "RGBA", "L") else picture.convert("RGB")]


def _pixels_picture(rows: list[Any]) -> list["Image"]:
    """Read rows of pixels, each a list of three or four colours from 0 to 255."""
    if len(rows) < _LEAST_PIXELS_ASIDE or not all(isinstance(row, list) for row in rows):
        return []
    width = len(rows[0])
    first = rows[0][0] if width >= _LEAST_PIXELS_ASIDE else None
    if not isinstance(first, list) or len(first) not in (3, 4) or any(len(row) != width for row in rows):
        return []
    try:
        colours = bytes(colour for row in rows for pixel in row for colour in pixel)
    except (TypeError, ValueError):  # other values than bytes
        return []
    if len(colours) != len(rows) * width * len(first):
        return []
    mode = "RGB" if len(first) == 3 else "RGBA"
    return [_pillow().frombytes(mode, (width, len(rows)), colours)]


def _pillow() -> Any:
    try:
        from PIL import Image  # only environments with pictures need it
    except ImportError as error:
        raise ConfigurationError(
            "The environment shows pictures, which need Pillow, and it is not installed: pip install pillow"
        ) from error
    return Image
