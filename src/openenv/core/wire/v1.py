"""Wire v1 without I/O: frames to requests, answers to frames.

A frame is one message or an array of messages. A message with the columns ``ids``, ``sessions`` and ``data`` stands for
a message to each of its sessions: it is read as as many requests, and answers that are ready together may be written as
one. This module uses no socket, session or event loop, so that all transports can share it.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, repeat
from operator import attrgetter
from typing import Any, cast

from openenv.core.exceptions import InvalidRequestError, MessageTooLargeError, RequestError
from openenv.core.wire.actions import ActionColumn
from openenv.core.wire.arrays import ArrayJson, Written, binary_frames
from openenv.core.wire.bounded_json import check_size, json_type, read_json
from openenv.core.wire.errors import LONGEST_QUOTE, error_data, error_json, validated
from openenv.core.wire.legacy import read_message
from openenv.core.wire.messages import (
    Answer,
    AttachMessage,
    ForkMessage,
    MessageType,
    OpenMessage,
    Refusal,
    RenderMessage,
    V1Request,
    quick_request,
)

_LARGEST_ID = 2**53 - 1  # exact in every JSON implementation

ARRAY_BYTES = 128 * 1024
"""Bytes by which a frame with an array of messages may be longer than the longest message."""

# Bytes after which no further message is added to a frame: larger frames gain nothing and delay those that follow.
_FULL_FRAME = 64 * 1024
# Characters of a message with columns for each of its answers, beside their data.
_BESIDE_DATA = 64
# Requests of a message with columns whose actions are validated together, before the first of them is carried out.
_VALIDATED_TOGETHER = 64

# Types of requests that a message with columns can have, and of its answers; as plain strings, which compare faster.
_STEP, _RESET = MessageType.STEP.value, MessageType.RESET.value
_OBSERVATION = MessageType.OBSERVATION.value
_COLUMNS = ("ids", "sessions", "data")
_OF_COLUMNS = {"type", *_COLUMNS}


def decode_v1(
    frame: str | None, max_bytes: int | None = None, actions: ActionColumn | None = None
) -> Iterator[V1Request | Refusal]:
    """Decode one frame of a client on v1.

    Args:
        frame: The frame's text, a message or an array of them; ``None`` for a binary frame.
        max_bytes: The longest message to accept, in bytes of UTF-8; ``None`` for no limit. An array may have
            ``ARRAY_BYTES`` more, as may a message with columns.
        actions: Validates the actions of a message with columns; ``None`` leaves that to their sessions.

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
        return _read_all(document, actions)
    if _has_columns(document):
        return _read_columns(document, actions)
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


def _read_all(messages: list[Any], actions: ActionColumn | None) -> Iterator[V1Request | Refusal]:
    for message in messages:
        if _has_columns(message):
            yield from _read_columns(message, actions)
        else:
            yield _read_v1(message)


def _has_columns(message: Any) -> bool:
    return isinstance(message, dict) and "sessions" in message and "id" not in message


def _read_columns(message: dict[str, Any], actions: ActionColumn | None) -> Iterator[V1Request | Refusal]:
    """Read a message for several sessions: a request for each of them, or one refusal of the message."""
    try:
        _check_columns(message)
    except InvalidRequestError as error:
        yield Refusal(error, None, None)
        return
    kind, ids, sessions, data = message["type"], *(message[name] for name in _COLUMNS)
    if not _are_plain(ids, sessions, data):
        yield from _read_entries(kind, ids, sessions, data)
        return
    for start in range(0, len(ids), _VALIDATED_TOGETHER):
        part = slice(start, start + _VALIDATED_TOGETHER)
        made: Iterable[Any] = repeat(None)
        if kind == _STEP and actions is not None:
            made = actions.read(data[part])
        yield from map(quick_request, zip(repeat(kind), data[part], ids[part], sessions[part], made, strict=False))


def _check_columns(message: dict[str, Any]) -> None:
    """Check a message for several sessions as far as it can't be answered for each of them."""
    if message.get("type") not in (_STEP, _RESET):
        got = f"{message.get('type')!r:.{LONGEST_QUOTE}}"
        raise InvalidRequestError(
            f"Expected 'step' or 'reset' as the type of a message for several sessions, got {got}."
        )
    if message.keys() != _OF_COLUMNS:
        got = f"{sorted(message)!r:.{LONGEST_QUOTE}}"
        raise InvalidRequestError(f"Expected a message for several sessions to have {sorted(_OF_COLUMNS)}, got {got}.")
    columns = [message[name] for name in _COLUMNS]
    if not all(isinstance(column, list) for column in columns):
        raise InvalidRequestError("Expected ids, sessions and data of a message for several sessions to be arrays.")
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1 or lengths == [0, 0, 0]:
        raise InvalidRequestError(f"Expected ids, sessions and data of one length, 1 or more; got {lengths}.")


def _are_plain(ids: list[Any], sessions: list[Any], data: list[Any]) -> bool:
    """Return whether columns need no look at each entry, as in most requests in training."""
    return (
        set(map(type, ids)) == {int}
        and set(map(type, sessions)) == {str}
        and set(map(type, data)) == {dict}
        and min(ids) >= 0
        and max(ids) <= _LARGEST_ID
        and len(set(sessions)) == len(sessions)
    )


def _read_entries(kind: str, ids: list[Any], sessions: list[Any], data: list[Any]) -> Iterator[V1Request | Refusal]:
    """Read columns entry by entry: a wrong one is refused, and the others are requests."""
    seen: set[str] = set()
    for number, session, fields in zip(ids, sessions, data, strict=True):
        request = _read_v1({"type": kind, "id": number, "session": session, "data": fields})
        if isinstance(request, V1Request) and session in seen:
            error = InvalidRequestError(
                "Expected each session once in a message for several sessions; this one came twice."
            )
            request = Refusal(error, request.id, session)
        if isinstance(session, str):
            seen.add(session)
        yield request


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
        render = validated(RenderMessage, message)
        return V1Request(kind, render.data.model_dump(exclude_none=True), number, session)
    inner = {name: value for name, value in message.items() if name not in ("id", "session")}
    request_type, data = read_message(inner)
    return V1Request(request_type, data, number, session)


def encode_error_v1(error: RequestError, number: int | None, session: str | None) -> Answer:
    """Return the answer to a failed request on v1, with its number and session if they are known."""
    known = {name: value for name, value in (("id", number), ("session", session)) if value not in (None, "")}
    return Answer("", error_json({"type": MessageType.ERROR, **known, "data": error_data(error)}), number, session)


def encode_answer(answer: Answer) -> str:
    """Encode an answer without arrays as a message of its own."""
    kind, text, number, session = answer
    return f'{{"type":"{kind}","id":{number},"session":"{session}","data":{text}}}' if kind else cast("str", text)


def encode_written(answer: Answer) -> Written:
    """Encode an answer as a message of its own, with the arrays that it may have beside it."""
    if isinstance(answer.text, str):
        return encode_answer(answer)
    return ArrayJson(encode_answer(answer._replace(text=answer.text.text)), answer.text.buffers)


def frames_v1(answers: Iterable[Answer], *, columns: bool = False, arrays: bool = False) -> Iterator[str | bytes]:
    """Join answers into frames.

    Args:
        answers: The answers, in order.
        columns: Whether observations that follow one another become one message, with columns.
        arrays: Whether some of them may have arrays.

    Returns:
        The texts of text frames, which hold single messages or arrays of messages; the bytes of binary frames, which
        hold answers with arrays.
    """
    if not arrays:
        yield from _text_frames(answers, columns)
        return
    for has_arrays, group in groupby(answers, _has_arrays):
        if has_arrays:
            yield from binary_frames(map(_encode_arrays, group))
        else:
            yield from _text_frames(group, columns)


def _has_arrays(answer: Answer) -> bool:
    return type(answer.text) is ArrayJson


def _encode_arrays(answer: Answer) -> ArrayJson:
    return cast("ArrayJson", encode_written(answer))


def _text_frames(answers: Iterable[Answer], columns: bool) -> Iterator[str]:
    ready: list[str] = []
    size = 0
    for message in _in_columns(answers) if columns else map(encode_answer, answers):
        ready.append(message)
        size += len(message) if message.isascii() else len(message.encode())
        if size >= _FULL_FRAME:
            yield ready[0] if len(ready) == 1 else f"[{','.join(ready)}]"
            ready, size = [], 0
    if ready:
        yield ready[0] if len(ready) == 1 else f"[{','.join(ready)}]"


def _in_columns(answers: Iterable[Answer]) -> Iterator[str]:
    """Encode answers; observations that follow one another as messages with columns, each up to a full frame."""
    for kind, group in groupby(answers, attrgetter("type")):
        if kind == _OBSERVATION:
            yield from _observations(list(group))
        else:
            yield from map(encode_answer, group)


def _observations(answers: Sequence[Answer]) -> Iterator[str]:
    if len(answers) == 1:
        yield encode_answer(answers[0])
        return
    _, texts, ids, sessions = cast("Any", zip(*answers, strict=True))
    data = ",".join(texts)
    size = len(data) if data.isascii() else len(data.encode())
    if size + _BESIDE_DATA * len(answers) > _FULL_FRAME:
        middle = len(answers) // 2
        yield from _observations(answers[:middle])
        yield from _observations(answers[middle:])
        return
    numbers, names = ",".join(map(str, ids)), '","'.join(sessions)
    yield f'{{"type":"{_OBSERVATION}","ids":[{numbers}],"sessions":["{names}"],"data":[{data}]}}'
