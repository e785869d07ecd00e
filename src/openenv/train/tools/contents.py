"""Contents of results for a model, as text or with pictures."""

import base64
import binascii
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic_core import to_json

from openenv.adapters.text import observation_text
from openenv.core.client.tools import refusal_text
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.exceptions import ConfigurationError
from openenv.core.schema.reader import pixel_fields
from openenv.core.typed_client import TypedEnvClient
from openenv.core.wire.array_fields import pixel_fields_of
from openenv.core.wire.media import pixels_of_rows

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Content", "blocks_of", "call_content", "call_problem", "joined", "observed_pixels", "refusal_text"]

# Fields of an observation that describe a call.
_OF_CALLS = frozenset({"tool_name", "result", "error"})
_NOT_SHOWN = frozenset({"done", "reward", "metadata"})
_DATA_URL = re.compile(r"data:image/[\w.+-]+;base64,")
# How base64 of a PNG, JPEG, GIF or WebP image begins.
_IMAGE_STARTS = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR")
_PIXEL_MODES = {3: "RGB", 4: "RGBA"}

Content = str | list[dict[str, Any]]


async def observed_pixels(client: EnvClient[Any, Any, Any]) -> frozenset[str]:
    """Return the fields of an environment's observations that are declared as the pixels of a picture.

    Raises:
        ConnectionFailedError: The server can't be reached, or has no schemas.
    """
    if isinstance(client, TypedEnvClient):
        return pixel_fields_of(client.observation_class)
    return pixel_fields((await client.schemas())["observation"])


def call_content(result: StepResult[Any], pixels: Collection[str] = ()) -> Content:
    """Return a result for a model, of a call, another step or a reset: text, or TRL's blocks where it has pictures.

    Args:
        result: The result.
        pixels: Fields that are the pixels of a picture, by the schema; a pydantic model declares its own.

    Raises:
        ConfigurationError: There are pictures, and Pillow is not installed.
    """
    observation = result.observation
    fields = _fields(observation)
    if fields.get("tool_name") and "result" in fields:
        return _result_content(fields)
    pixels = pixel_fields_of(type(observation)) if isinstance(observation, BaseModel) else pixels
    if "tool_name" in fields:  # of a reset, of an environment whose observations are all of tools
        fields = {name: value for name, value in fields.items() if name not in _OF_CALLS}
    read = {name: _pixels_picture(value) if name in pixels else _pictures(value) for name, value in fields.items()}
    pictures = {name: found for name, found in read.items() if found}
    shown = {name: value for name, value in fields.items() if name not in pictures}
    prompt = shown.get("prompt")
    only_prompt = isinstance(prompt, str) and not shown.keys() - _NOT_SHOWN - {"prompt"}
    return _content(str(prompt) if only_prompt else observation_text(shown), [*_all(pictures.values())])


def blocks_of(content: Content) -> list[dict[str, Any]]:
    """Return content as blocks."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def joined(content: Content, more: Content) -> Content:
    """Put content behind other content, as TRL does with a prompt and an observation."""
    if isinstance(content, str) and isinstance(more, str):
        return content + more
    return [*blocks_of(content), *blocks_of(more)]


def call_problem(result: StepResult[Any]) -> str | None:
    """Return the reason why a tool's call has no result, for the model; ``None`` where it has one."""
    fields = _fields(result.observation)
    error = fields.get("error")
    if error is None or not fields.get("tool_name") or "result" not in fields:
        return None
    message = error.get("message") if isinstance(error, Mapping) else error
    return message if isinstance(message, str) else _json_text(error)


def _fields(observation: Any) -> Mapping[str, Any]:
    if isinstance(observation, BaseModel):
        pixels = pixel_fields_of(type(observation))
        arrays = {name: getattr(observation, name) for name in pixels}
        return {**observation.model_dump(mode="json", exclude=set(pixels)), **arrays}
    return observation if isinstance(observation, Mapping) else {"text": str(observation)}


def _result_content(fields: Mapping[str, Any]) -> Content:
    """Return the content of a tool's result or error."""
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
    """Return the blocks of a result that MCP's own server library made; ``None`` of any other value."""
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
    found = [_encoded_picture(each) if isinstance(each, str) else [] for each in value]
    return [*_all(found)] if all(found) else []


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


def _pixels_picture(pixels: Any) -> list["Image"]:
    """Read pixels: an array of NumPy, or rows of them as lists; nothing where there are none."""
    array = _pixel_array(pixels)
    if array is None or array.ndim != len("hwc"):
        return []
    height, width, depth = array.shape or ()
    return [_pillow().frombytes(_PIXEL_MODES[depth], (width, height), array.tobytes())]


def _pixel_array(pixels: Any) -> memoryview | None:
    if isinstance(pixels, list):
        return pixels_of_rows(pixels)
    try:
        return memoryview(pixels)
    except TypeError:  # no array: a picture may be missing
        return None


def _pillow() -> Any:
    try:
        from PIL import Image  # only environments with pictures need it
    except ImportError as error:
        raise ConfigurationError(
            "The environment shows pictures, which need Pillow, and it is not installed: pip install pillow"
        ) from error
    return Image
