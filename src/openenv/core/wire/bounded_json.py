"""JSON of a frame, parsed within bounds of bytes and of values."""

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic_core import from_json

from openenv.core.exceptions import ErrorCode, InvalidRequestError, MessageTooLargeError, TooManyValuesError

# Parsing a value of JSON takes as long as a thousand bytes of a string, and blocks the event loop. So a message may
# have only so many commas, colons and opening brackets or, with a higher limit of bytes, one in so many bytes.
_MOST_MARKS = 2 * 1024 * 1024
_BYTES_PER_MARK = 8

LONG_MESSAGE = 1024 * 1024
"""Bytes up to which a message can't hold too many values."""


def read_json(frame: str | None, max_bytes: int | None = None, extra_bytes: int = 0) -> Any:
    """Parse the JSON of one frame.

    Args:
        frame: The frame's text; ``None`` for a binary frame.
        max_bytes: The longest message to accept, in bytes of UTF-8; ``None`` for no limit.
        extra_bytes: Bytes by which the frame may be longer than a message.

    Raises:
        InvalidRequestError: The frame is binary, or no JSON.
        MessageTooLargeError: The frame is too long.
        TooManyValuesError: The frame holds too many values.
    """
    if frame is None:
        raise InvalidRequestError("Expected a text frame with JSON, got a binary frame.")
    if max_bytes is not None:
        if len(frame) * 4 > max_bytes:  # else no count of bytes is needed
            check_size(frame, max_bytes + extra_bytes)
        if len(frame) > LONG_MESSAGE:
            check_marks(count_marks(frame), max_bytes)
    try:
        return from_json(frame) if len(frame) <= LONG_MESSAGE else _read_long(frame)
    except (ValueError, TypeError) as error:
        message = f"Invalid JSON: {_standard_message(frame, error)}"
        raise InvalidRequestError(message, code=ErrorCode.INVALID_JSON) from None


def check_size(text: str, max_bytes: int) -> None:
    """Reject a message that is too long.

    Args:
        text: The message.
        max_bytes: The longest message that is accepted, in bytes of UTF-8.

    Raises:
        MessageTooLargeError: The message is longer.
    """
    size = len(text.encode(errors="surrogatepass"))
    if size > max_bytes:
        raise MessageTooLargeError(size, max_bytes)


def count_marks(text: str | bytes) -> int:
    """Count the marks that separate values of JSON: commas, colons, opening brackets; also within strings."""
    if isinstance(text, str):
        return sum(map(text.count, ",:[{"))
    return sum(map(text.count, (b",", b":", b"[", b"{")))


def check_marks(marks: int, max_bytes: int) -> None:
    """Reject a message with more values than can be parsed without delaying other clients.

    Args:
        marks: The message's marks, by ``count_marks``.
        max_bytes: The longest message that is accepted.

    Raises:
        TooManyValuesError: The message has too many.
    """
    most = max(_MOST_MARKS, max_bytes // _BYTES_PER_MARK)
    if marks > most:
        raise TooManyValuesError(marks, most)


def _read_long(frame: str) -> Any:
    with without_collection():
        return from_json(frame)


@contextmanager
def without_collection() -> Iterator[None]:
    """Parse a long message without garbage collection, which would take most of the time and find nothing."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _standard_message(frame: str, error: Exception) -> str:
    """Return the standard library's message for a fault of JSON, as the public server does, if it finds one."""
    if len(frame) > LONG_MESSAGE:  # too long to parse a second time
        return str(error)
    try:
        json.loads(frame)
    except (ValueError, RecursionError) as standard:
        return str(standard)
    return str(error)


def json_type(value: Any) -> str:
    """Return the name of the type of a JSON value other than an object, with its article."""
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")
