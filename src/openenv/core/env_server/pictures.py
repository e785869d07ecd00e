"""What ``Environment.render`` returned, in a form that travels: text, HTML, SVG, or an image."""

import base64
import struct
import zlib
from typing import Any

from openenv.core.env_server.types import BaseMessage
from openenv.core.exceptions import EnvironmentFailedError

TEXT, HTML, SVG, PNG = "text/plain", "text/html", "image/svg+xml", "image/png"
_WRITTEN = (TEXT, HTML, SVG)

# How the bytes of an image begin.
_MAGIC = {b"\x89PNG\r\n\x1a\n": PNG, b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
# How a text begins that is no plain one; it is compared in small letters.
_MARKUP = {"<svg": SVG, "<?xml": SVG, "<!doctype html": HTML, "<html": HTML, "<div": HTML, "<table": HTML, "<pre": HTML}
# PNG's numbers for pixels of one, three and four bytes: grey, colours, colours with transparency.
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}


class Picture(BaseMessage):
    """A position, to be looked at.

    Attributes:
        media_type: What it is: ``text/plain``, where colours are those of a terminal, ``text/html``, ``image/svg+xml``,
            ``image/png`` or another kind of image.
        content: The text; of an image other than SVG, its bytes in base64.
    """

    media_type: str
    content: str

    @property
    def image(self) -> bytes | None:
        """The bytes of an image; ``None`` where the content is text."""
        return None if self.media_type in _WRITTEN else base64.b64decode(self.content)


def picture_of(rendered: Any) -> Picture | None:
    """Bring what ``render`` returned into one form.

    Args:
        rendered: Text, HTML, SVG; the bytes of a PNG, JPEG, GIF or WebP image; an array of bytes with the shape
            ``(height, width)``, ``(height, width, 3)`` or ``(height, width, 4)``; or ``None`` for nothing.

    Returns:
        The picture, or ``None`` where there is nothing to see.

    Raises:
        EnvironmentFailedError: It is something else.

    Example:
        >>> picture_of("X.O")
        Picture(media_type='text/plain', content='X.O')
    """
    if rendered is None or (isinstance(rendered, str) and not rendered):
        return None
    if isinstance(rendered, str):
        start = rendered.lstrip()[:20].lower()
        kind = next((kind for beginning, kind in _MARKUP.items() if start.startswith(beginning)), TEXT)
        return Picture(media_type=kind, content=rendered)
    if isinstance(rendered, bytes | bytearray):
        image = image_type(rendered)
        if image is None:
            raise _unknown(f"{len(rendered)} bytes of no known kind of image")
        return _encoded(image, bytes(rendered))
    return _encoded(PNG, png_of(rendered))


def image_type(file: bytes | bytearray) -> str | None:
    """Return the media type of an image's file, by how it begins; ``None`` where it is no PNG, JPEG, GIF or WebP.

    Args:
        file: The file's bytes.
    """
    if file[:4] == b"RIFF" and file[8:12] == b"WEBP":  # sound begins with RIFF, too
        return "image/webp"
    return next((kind for beginning, kind in _MAGIC.items() if file.startswith(beginning)), None)


def png_of(pixels: Any) -> bytes:
    """Write an array of pixels as PNG.

    Args:
        pixels: Bytes with the shape ``(height, width)``, ``(height, width, 3)`` or ``(height, width, 4)``, such as a
            NumPy array of ``uint8``.

    Raises:
        EnvironmentFailedError: It is something else.
    """
    try:
        view = memoryview(pixels)
    except TypeError:
        raise _unknown(type(pixels).__name__) from None
    shape = view.shape or ()
    depth = 1 if len(shape) == 2 else shape[2] if len(shape) == 3 else 0
    if view.format != "B" or depth not in _COLOUR_TYPES or 0 in shape:
        raise _unknown(f"an array of the shape {shape} and the format {view.format!r}")
    height, width = shape[:2]
    flat = view.tobytes()
    row_bytes = width * depth
    # Each row begins with the number of its filter; 0 is none.
    rows = b"".join(b"\0" + flat[start : start + row_bytes] for start in range(0, height * row_bytes, row_bytes))
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[depth], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _encoded(media_type: str, image: bytes) -> Picture:
    return Picture(media_type=media_type, content=base64.b64encode(image).decode())


def _unknown(came: str) -> EnvironmentFailedError:
    return EnvironmentFailedError(
        "Expected render() to return text, HTML, SVG, the bytes of a PNG, JPEG, GIF or WebP image, an array of bytes "
        f"with the shape (height, width[, 3 or 4]), or None; got {came}."
    )
