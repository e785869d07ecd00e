"""Frames between a server and a sandbox: two lengths, a head in JSON, a body of bytes.

JSON, because reading it runs no code, from whatever source. Both ends use this module.
"""

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

HEADER = struct.Struct("!II")
MOST_HEAD_BYTES = 64 * 1024


class Frame(NamedTuple):
    """A message.

    Attributes:
        head: The request or the answer.
        body: The bytes that go with it: code, output, a file.
    """

    head: dict[str, Any]
    body: bytes


def pack(head: Mapping[str, Any], body: bytes = b"") -> bytes:
    """Write a frame."""
    written = json.dumps(head).encode()
    return HEADER.pack(len(written), len(body)) + written + body


def read_frame(receive: Callable[[int], bytes], most_body_bytes: int) -> Frame:
    """Read a frame.

    Args:
        receive: Returns exactly so many bytes.
        most_body_bytes: A longer body is refused before it is read.

    Raises:
        ValueError: What came is no frame, or it is too long.
    """
    head_length, body_length = HEADER.unpack(receive(HEADER.size))
    if head_length > MOST_HEAD_BYTES or body_length > most_body_bytes:
        raise ValueError(f"a frame of {head_length} and {body_length} bytes is too long")
    head = json.loads(receive(head_length))
    if not isinstance(head, dict):
        raise ValueError("the head of a frame is no object")
    return Frame(head, receive(body_length))
