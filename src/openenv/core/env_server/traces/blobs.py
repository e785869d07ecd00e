"""Long values of entries, kept once and by their hash: pictures as base64, and arrays of numbers.

A line stands for such a value by the value's hash between two control characters. JSON escapes those wherever they
are, so that a line without blobs can't be mistaken for one with them, and putting a value back gives the same bytes.
"""

import re
from collections.abc import Callable
from hashlib import sha256

Blobs = dict[str, bytes]
"""Long values by the SHA-256 of each, in hexadecimal."""

SHORTEST = 2048
"""Bytes from which on a value counts as long."""

# Each begins with a literal, which makes searching fast: a string of base64, a data URL, and an array.
_LONG = tuple(
    re.compile(pattern % SHORTEST)
    for pattern in (
        rb'(")([A-Za-z0-9+/=_-]{%d,})',
        rb"(;base64,)([A-Za-z0-9+/=_-]{%d,})",
        rb"(:)(\[[\[\]0-9.,eE+-]{%d,}\])",
    )
)
_HASH = re.compile(rb"\x1a([0-9a-f]{64})\x1a")


def take_out(line: bytes) -> tuple[bytes, Blobs]:
    """Replace the long values of a line by their hashes.

    Args:
        line: The line.

    Returns:
        The line, and the values that were replaced.

    Example:
        >>> line, blobs = take_out(b'{"png": "' + b"QUJD" * 600 + b'"}')
        >>> len(line), [len(blob) for blob in blobs.values()]
        (77, [2400])
    """
    blobs: Blobs = {}
    for pattern in _LONG:
        pieces, end = [], 0
        for found in pattern.finditer(line):
            name = sha256(found[2]).hexdigest()
            blobs[name] = found[2]
            pieces += [line[end : found.start(2)], b"\x1a%s\x1a" % name.encode()]
            end = found.end()
        line = b"".join([*pieces, line[end:]]) if pieces else line
    return line, blobs


def put_back(content: bytes, blob: Callable[[str], bytes]) -> bytes:
    """Replace the hashes in lines by their values.

    Args:
        content: The lines, as from ``take_out``.
        blob: Reads a value by its hash.
    """
    return _HASH.sub(lambda found: blob(found[1].decode()), content) if b"\x1a" in content else content
