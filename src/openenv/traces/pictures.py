"""Pictures in an episode's entries: files as base64 within JSON, known by how they begin."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_SHORTEST = 32
# How the base64 of a file begins, and the file's suffix.
_BEGINNINGS = {"iVBORw0KGgo": ".png", "/9j/": ".jpg", "R0lGOD": ".gif", "UklGR": ".webp"}
_WEBP = slice(8, 12)


class RecordedPicture(NamedTuple):
    """Picture in a JSON document.

    Attributes:
        path: Its path, such as ``observation.screenshot``.
        suffix: Suffix of its file, such as ``.png``.
        content: The file.
    """

    path: str
    suffix: str
    content: bytes


def pictures_in(value: Any, path: str = "observation") -> Iterator[RecordedPicture]:
    """Iterate over the pictures in a JSON document: PNG, JPEG, GIF and WebP, as base64 or as data URLs.

    Example:
        >>> [picture.path for picture in pictures_in({"screen": "R0lGODlh" + "A" * 64, "text": "a cat"})]
        ['observation.screen']
    """
    if isinstance(value, str):
        picture = _picture_of(path, value)
        if picture is not None:
            yield picture
        return
    inner: Any = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        if isinstance(each, str | Mapping | list):
            yield from pictures_in(each, f"{path}.{name}")


def _picture_of(path: str, text: str) -> RecordedPicture | None:
    text = text.partition(";base64,")[2] if text.startswith("data:image/") else text
    suffix = next((suffix for beginning, suffix in _BEGINNINGS.items() if text.startswith(beginning)), None)
    if suffix is None or len(text) < _SHORTEST:
        return None
    try:
        content = base64.b64decode(text, validate=True)
    except binascii.Error:  # a text that begins alike
        return None
    if suffix == ".webp" and content[_WEBP] != b"WEBP":
        return None
    return RecordedPicture(path, suffix, content)
