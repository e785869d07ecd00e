"""Wire v1 without I/O: frames to requests, answers to frames.

A frame is one message or an array of messages. This module uses no socket, session or event loop, so that all
transports can share it.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from openenv.core.exceptions import InvalidRequestError, MessageTooLargeError, RequestError
from openenv.core.wire.bounded_json import check_size, json_type, read_json
from openenv.core.wire.errors import LONGEST_QUOTE, error_data, error_json, validated
from openenv.core.wire.legacy import read_message
from openenv.core.wire.messages import (
    AttachMessage,
    ForkMessage,
    MessageType,
    OpenMessage,
    Refusal,
    RenderMessage,
    V1Request,
)

_LARGEST_ID = 2**53 - 1  # exact in every JSON implementation

ARRAY_BYTES = 128 * 1024
"""Bytes by which a frame with an array of messages may be longer than the longest message."""

# Bytes after which no further message is added to a frame: larger frames gain nothing and delay those that follow.
_FULL_FRAME = 64 * 1024


def decode_v1(frame: str | None, max_bytes: int | None = None) -> Iterator[V1Request | Refusal]:
    """Decode one frame of a client on v1.

    Args:
        frame: The frame's text, a message or an array of them; ``None`` for a binary frame.
        max_bytes: The longest message to accept, in bytes of UTF-8; ``None`` for no limit. An array may have
            ``ARRAY_BYTES`` more.

    Returns:
        A request or a refusal for each message, lazily: millions of bad messages need not be in memory as errors at
        once. A frame that is no JSON, too long or an empty array is one refusal.
    """
    try:
        document = read_json(frame, max_bytes, ARRAY_BYTES)
    except RequestError as error:
        return iter((Refusal(error, None, None),))
    if document == []:
        empty = InvalidRequestError("Expected a message or an array of messages, got an empty array.")
        return iter((Refusal(empty, None, None),))
    if isinstance(document, list):
        return map(_read_v1, document)
    message = _read_v1(document)
    if frame is not None and max_bytes is not None and len(frame) * 4 > max_bytes:
        message = _within_size(message, frame, max_bytes)
    return iter((message,))


def _within_size(message: V1Request | Refusal, frame: str, max_bytes: int) -> V1Request | Refusal:
    """Return the only message of a frame, which has no allowance for arrays; a refusal if it is too long."""
    try:
        check_size(frame, max_bytes)
    except MessageTooLargeError as error:
        return Refusal(error, message.id, message.session)
    return message


def _read_v1(message: Any) -> V1Request | Refusal:
    if not isinstance(message, dict):
        number = session = None
    else:
        number, session = message.get("id"), message.get("session")
        if type(number) is not int or not 0 <= number <= _LARGEST_ID:
            number = None
        elif type(session) is str and len(message) == 4 and message.get("type") == "step":
            data = message.get("data")
            if type(data) is dict:
                return V1Request("step", data, number, session)  # the fast path, for most requests in training
        session = session if isinstance(session, str) else None
    try:
        return _checked_v1(message, number, session)
    except InvalidRequestError as error:
        return Refusal(error, number, session)


def _checked_v1(message: Any, number: int | None, session: str | None) -> V1Request:
    if not isinstance(message, dict):
        example = '{"type": "open", "id": 1}'
        raise InvalidRequestError(f"Expected a message such as {example}, got {json_type(message)}.")
    if number is None:
        got = f"{message.get('id')!r:.{LONGEST_QUOTE}}"
        raise InvalidRequestError(f"Expected an id from 0 to {_LARGEST_ID}, got {got}.")
    kind = message.get("type")
    if kind == MessageType.OPEN:
        request = validated(OpenMessage, message)
        return V1Request(kind, request.data.model_dump(), number, "")
    if kind == MessageType.ATTACH:
        attach = validated(AttachMessage, message)
        return V1Request(kind, attach.data.model_dump(), number, attach.session)
    if session is None:
        raise InvalidRequestError("Expected the session that this message is for; open one first.")
    if kind == MessageType.FORK:
        fork = validated(ForkMessage, message)
        return V1Request(kind, fork.data.model_dump(), number, session)
    if kind == MessageType.RENDER:
        validated(RenderMessage, message)
        return V1Request(kind, {}, number, session)
    inner = {name: value for name, value in message.items() if name not in ("id", "session")}
    request_type, data = read_message(inner)
    return V1Request(request_type, data, number, session)


def encode_v1(kind: str, data: str, number: int, session: str) -> str:
    """Encode an answer on v1.

    Args:
        kind: The answer's ``type``.
        data: The answer's ``data``, as JSON.
        number: The request's ``id``.
        session: The session's id, made by the server.
    """
    return f'{{"type":"{kind}","id":{number},"session":"{session}","data":{data}}}'


def encode_error_v1(error: RequestError, number: int | None, session: str | None) -> str:
    """Encode the answer to a failed request on v1, with its number and session if they are known."""
    known = {name: value for name, value in (("id", number), ("session", session)) if value not in (None, "")}
    return error_json({"type": MessageType.ERROR, **known, "data": error_data(error)})


def frames_v1(messages: Iterable[str]) -> Iterator[str]:
    """Join messages into frames.

    Args:
        messages: The messages as JSON, in order.

    Returns:
        The frames' texts: single messages, or arrays of messages.
    """
    ready: list[str] = []
    size = 0
    for message in messages:
        ready.append(message)
        size += len(message) if message.isascii() else len(message.encode())
        if size >= _FULL_FRAME:
            yield ready[0] if len(ready) == 1 else f"[{','.join(ready)}]"
            ready, size = [], 0
    if ready:
        yield ready[0] if len(ready) == 1 else f"[{','.join(ready)}]"
