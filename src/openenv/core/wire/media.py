"""Pictures and bytes in values of an environment, as MCP's blocks of content.

Pictures are found in JSON, independent of the environment's process.
A picture is

- a `Picture`, or MCP's own block of content: ``{"type": "image", "data": ..., "mimeType": ...}``;
- a text that is an image file in base64, with or without ``data:image/png;base64,`` before it;
- rows of pixels in a field of an observation that is declared as such: lists of lists of three or four numbers from 0
  to 255, the JSON of a NumPy array. Other rows of such numbers are boards, maps and the like.

SVG stays a text: models read it, and few clients of MCP show it.
"""

import base64
import binascii
import io
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from openenv.core.exceptions import EnvironmentFailedError
from openenv.core.wire.results import SVG, Picture, image_type, png_of

Block = dict[str, Any]
"""Block of content in MCP's form on the wire."""

BYTES_URI = "openenv://bytes"
"""URI of bytes that are neither text nor an image."""

_DATA_URL = re.compile(r"data:(image/[a-z.+-]+);base64,")
# First bytes of image files, in base64.
_BASE64_STARTS = ("iVBORw0KGgo", "/9j/", "R0lGODlh", "R0lGODdh", "UklGR")
_SHORTEST_BASE64 = 48
_PIXEL_DEPTHS = (3, 4)
# Bounds of the search for pictures, which would otherwise cost more than the rest of a call.
_DEEPEST = 4
_LONGEST_LIST = 64
_PLAIN = frozenset({str, int, float, bool, dict, type(None)})


@dataclass
class Split:
    """JSON value split into text and pictures.

    Attributes:
        value: The value, with a short text instead of each picture.
        blocks: The pictures, in order.
    """

    value: Any
    blocks: list[Block] = field(default_factory=list)


def split(value: Any, pixel_fields: Collection[str] = ()) -> Split:
    """Split a JSON value into text and pictures.

    Args:
        value: The value; it is not changed.
        pixel_fields: Of an observation, the fields that are declared as the pixels of a picture.

    Example:
        >>> split({"text": "red", "view": {"type": "image", "data": "AAAA", "mimeType": "image/png"}}).value
        {'text': 'red', 'view': '(image/png 1)'}
    """
    found = Split(None)
    if pixel_fields and isinstance(value, dict):
        value = {name: _as_block(each) if name in pixel_fields else each for name, each in value.items()}
    found.value = _without_media(value, found.blocks, 0)
    return found


def portable(value: Any) -> Any:
    """Return a tool's return value with pictures and bytes in a JSON form.

    Args:
        value: Bytes; a `Picture`, an image of Pillow or an array of pixels; a list or tuple of these and other values;
            any other value is returned unchanged.
    """
    if type(value) in _PLAIN:  # nearly always
        return value
    if isinstance(value, list | tuple) and any(map(_is_media, value)):
        return [_block_of(each) if _is_media(each) else each for each in value]
    return _block_of(value) if _is_media(value) else value


def pixels_of_rows(rows: Any) -> memoryview | None:
    """Return rows of pixels as an array of bytes.

    Args:
        rows: Lists of lists of three or four numbers, from JSON.

    Returns:
        The bytes, of the shape ``(height, width, 3)`` or ``(height, width, 4)``; ``None`` for rows of different
        lengths, other numbers than those of bytes, and other values.
    """
    width, depth = _length(rows), _length(rows, 1)
    if not width or depth not in _PIXEL_DEPTHS:
        return None
    try:
        pixels = b"".join(bytes(pixel) for row in rows for pixel in row)
        return memoryview(pixels).cast("B", (len(rows), width, depth))
    except (TypeError, ValueError):  # invalid numbers for a pixel, or rows of different lengths
        return None


def _as_block(rows: Any) -> Any:
    """Return rows of pixels as an image; any other value, such as ``None``, unchanged."""
    pixels = pixels_of_rows(rows)
    return rows if pixels is None else _image("image/png", base64.b64encode(png_of(pixels)).decode())


def _without_media(value: Any, blocks: list[Block], depth: int) -> Any:
    block = _found_block(value)
    if block is not None:
        blocks.append(block)
        return _mark(block, len(blocks))
    if depth >= _DEEPEST:
        return value
    if isinstance(value, dict):
        return {name: _without_media(each, blocks, depth + 1) for name, each in value.items()}
    if isinstance(value, list) and len(value) <= _LONGEST_LIST:
        return [_without_media(each, blocks, depth + 1) for each in value]
    return value


def _mark(block: Block, number: int) -> str:
    return f"({block['mimeType'] if block['type'] == 'image' else block['resource']['mimeType']} {number})"


def _found_block(value: Any) -> Block | None:
    """Return the block of a JSON value; ``None`` for a value that is no picture."""
    if isinstance(value, str):
        return _block_of_text(value)
    return _block_of_fields(value) if isinstance(value, dict) else None


def _block_of_text(text: str) -> Block | None:
    url = _DATA_URL.match(text)
    data = text[url.end() :] if url else text
    if (url is None and not data.startswith(_BASE64_STARTS)) or len(data) < _SHORTEST_BASE64:
        return None
    try:
        image = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    kind = image_type(image)
    return None if kind is None else _image(kind, data)


def _block_of_fields(fields: Mapping[str, Any]) -> Block | None:
    match fields:
        case {"type": "image", "data": str() as data, "mimeType": str() as kind}:
            return _image(kind, data)
        case {"type": "resource", "resource": {"uri": str(), "mimeType": str(), "blob": str()} as resource}:
            return {"type": "resource", "resource": dict(resource)}
        case {"media_type": str() as kind, "content": str() as data} if kind.startswith("image/") and kind != SVG:
            return _image(kind, data)
    return None


def _length(rows: Any, level: int = 0) -> int:
    """Return the length of the first row or, on level 1, of its first pixel; 0 if there is none."""
    for _ in range(level + 1):
        rows = rows[0] if isinstance(rows, list) and rows else None
    return len(rows) if isinstance(rows, list) else 0


def _is_media(value: Any) -> bool:
    if isinstance(value, bytes | bytearray):
        return True
    return isinstance(value, Picture) or _is_of_pillow(value) or _is_pixel_array(value)


def _is_of_pillow(value: Any) -> bool:
    """Whether a value is an image of Pillow, which need not be installed."""
    return any(cls.__module__ == "PIL.Image" and cls.__name__ == "Image" for cls in type(value).__mro__)


def _is_pixel_array(value: Any) -> bool:
    shape: tuple[int, ...] = getattr(value, "shape", ()) if type(value).__module__ == "numpy" else ()
    return len(shape) == len("hwc") and shape[2] in _PIXEL_DEPTHS and str(value.dtype) == "uint8"


def _block_of(value: Any) -> Any:
    """Return the block of a picture or of bytes; bytes of text become text."""
    if isinstance(value, Picture):
        is_image = value.image is not None
        return _image(value.media_type, value.content) if is_image else value.content
    if isinstance(value, bytes | bytearray):
        return _block_of_bytes(bytes(value))
    image = _png_of_pillow(value) if _is_of_pillow(value) else png_of(_contiguous(value))
    return _image("image/png", base64.b64encode(image).decode())


def _block_of_bytes(value: bytes) -> Any:
    kind = image_type(value)
    data = base64.b64encode(value).decode()
    if kind is not None:
        return _image(kind, data)
    try:
        return value.decode()
    except UnicodeDecodeError:
        resource = {"uri": BYTES_URI, "mimeType": "application/octet-stream", "blob": data}
        return {"type": "resource", "resource": resource}


def _png_of_pillow(image: Any) -> bytes:
    written = io.BytesIO()
    try:
        image.save(written, format="PNG")
    except (OSError, ValueError) as error:
        raise EnvironmentFailedError(f"An image of Pillow can't be written as PNG: {error}") from error
    return written.getvalue()


def _contiguous(array: Any) -> Any:
    """Return an array whose bytes are contiguous: a copy of one that is sliced or transposed."""
    return array if array.flags.c_contiguous else array.copy(order="C")


def _image(kind: str, data: str) -> Block:
    return {"type": "image", "data": data, "mimeType": kind}
