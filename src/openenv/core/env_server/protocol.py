"""The wires without any input or output: frames to requests, outcomes to frames.

On the **legacy** wire, which the public clients and servers speak, a text frame is one JSON object,
``{"type": ..., "data": ...}``, and requests are answered in order. On **v1** a frame is such a message or an array of
them, and each names a session and carries a number by which its answer is known. Nothing here knows a socket, a session
or an event loop, so that every transport can share it and it can be tested alone.
"""

import gc
import json
import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cache
from itertools import count
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from openenv.core.env_server.action_unions import action_members
from openenv.core.env_server.disclosure import without_secrets
from openenv.core.env_server.mcp_types import TOOL_ACTIONS, names_tool_action
from openenv.core.env_server.outcomes import Outcome, WrittenJson
from openenv.core.env_server.pictures import Picture
from openenv.core.env_server.types import (
    AttachMessage,
    ForkMessage,
    OpenMessage,
    RenderMessage,
    Scalar,
    WSCloseMessage,
    WSMCPMessage,
    WSResetMessage,
    WSStateMessage,
    WSStepMessage,
)
from openenv.core.exceptions import (
    EnvironmentFailedError,
    InvalidRequestError,
    MessageTooLargeError,
    RequestError,
    TooManyValuesError,
)
from openenv.core.plain_values import plain_value

ModelT = TypeVar("ModelT", bound=BaseModel)
logger = logging.getLogger(__name__)


class Request(NamedTuple):
    """What a client asks for.

    Attributes:
        type: ``reset``, ``step``, ``state``, ``close`` or ``mcp``.
        data: Arguments of a reset, fields of a step's action, or a JSON-RPC request.
    """

    type: str
    data: dict[str, Any]


_MESSAGES: dict[str, type[BaseModel]] = {
    "reset": WSResetMessage,
    "step": WSStepMessage,
    "state": WSStateMessage,
    "close": WSCloseMessage,
    "mcp": WSMCPMessage,
}

# The two fields that travel beside the observation, not inside it.
_BESIDE = {"reward", "done"}

# Bounds on what an error sends back to a client of what it has sent: bytes of an input, characters of a name, faults.
_LONGEST_ECHO = 1_000
_LONGEST_QUOTE = 100
_MOST_FAULTS = 20
# Levels of what it quotes where that has no form in JSON; pydantic writes no more than some 250.
_DEEPEST_QUOTE = 200
# Levels down to which the place is named that has no form in JSON.
_DEEPEST_PLACE = 10
# Of so many observations with a null in their JSON, one is searched for NaN and infinity: fields without a value are
# common, and a search of all would slow their steps down.
_LOOKED_AT = 16
_MOST_WARNED = 100
_with_null = count()
_warned: set[type] = set()

WORKERS_HEADER = "X-OpenEnv-Workers"
"""Tells a client of how many processes the server is, so that it may spread its sessions over as many sockets."""

SESSIONS_HEADER = "X-OpenEnv-Sessions"
"""Tells a fleet for how many sessions its client connects, and the client to how many of them a server has room."""

V1 = "openenv.v1"
"""The WebSocket subprotocol that a client offers, and a server that has it chooses."""

# To read a value of JSON takes as long as a thousand bytes of a string, and everybody waits for it. So a message may
# have only so many commas, colons and opening brackets, or, where longer ones are allowed, one in so many bytes.
_MOST_MARKS = 2 * 1024 * 1024
_BYTES_PER_MARK = 8
# Shorter messages can't hold so many that it would matter.
LONG_MESSAGE = 1024 * 1024

_LARGEST_ID = 2**53 - 1  # what every JSON implementation can count to
ARRAY_BYTES = 128 * 1024
"""How much longer than the longest message a frame of v1 may be that holds an array of them, in bytes."""

# Bytes after which no further message is put into a frame: larger ones gain nothing and hold up what follows.
_FULL_FRAME = 64 * 1024


class V1Request(NamedTuple):
    """What a client asks for on v1.

    Attributes:
        type: ``open``, ``attach``, ``fork``, ``render``, or one of the legacy wire's.
        data: As on the legacy wire.
        id: Number of the request, for its answer.
        session: The session that it is for; empty for ``open``.
    """

    type: str
    data: dict[str, Any]
    id: int
    session: str


class Refusal(NamedTuple):
    """A message of v1 that makes no request.

    Attributes:
        error: What is wrong with it.
        id: Its number, where it has one.
        session: Its session, where it names one.
    """

    error: RequestError
    id: int | None
    session: str | None


def decode(frame: str | None, max_bytes: int | None = None) -> Request:
    """Read one frame from a client on the legacy wire.

    Args:
        frame: The frame's text; ``None`` for a binary frame.
        max_bytes: The longest frame to accept, in bytes of UTF-8; ``None`` for any.

    Returns:
        The request.

    Raises:
        InvalidRequestError: The frame is no JSON, no object, of no known type, or has missing or unknown fields.
        MessageTooLargeError: It is too long.
    """
    document = read_json(frame, max_bytes)
    if not isinstance(document, dict):
        raise InvalidRequestError(f'Expected a JSON object such as {{"type": "reset"}}, got {_json_type(document)}.')
    return _read_legacy(document)


def read_json(frame: str | None, max_bytes: int | None = None) -> Any:
    """Read the JSON of one frame.

    Args:
        frame: The frame's text; ``None`` for a binary frame.
        max_bytes: The longest frame to accept, in bytes of UTF-8; ``None`` for any.

    Raises:
        InvalidRequestError: It is none.
        MessageTooLargeError: It is too long.
    """
    text = _checked_frame(frame, max_bytes)
    _check_marks(text, max_bytes)
    return _parse(text)


def count_marks(text: str | bytes) -> int:
    """Count what stands before or after each value of JSON, also within strings."""
    if isinstance(text, str):
        return sum(map(text.count, ",:[{"))
    return sum(map(text.count, (b",", b":", b"[", b"{")))


def check_marks(marks: int, max_bytes: int) -> None:
    """Refuse a message that holds more values than can be read without keeping others waiting.

    Args:
        marks: What ``count_marks`` has counted.
        max_bytes: The longest message that is accepted.

    Raises:
        TooManyValuesError: It does.
    """
    most = max(_MOST_MARKS, max_bytes // _BYTES_PER_MARK)
    if marks > most:
        raise TooManyValuesError(marks, most)


def _check_marks(text: str, max_bytes: int | None) -> None:
    if max_bytes is not None and len(text) > LONG_MESSAGE:
        check_marks(count_marks(text), max_bytes)


def _read_legacy(document: dict[str, Any]) -> Request:
    kind, data = document.get("type", ""), document.get("data")
    if kind == "step" and isinstance(data, dict) and len(document) == 2:
        return Request(kind, data)  # training sends little else, and the model could find nothing wrong with it
    message_class = _MESSAGES.get(kind) if isinstance(kind, str) else None
    if message_class is None:
        raise InvalidRequestError(f"Unknown message type: {kind!s:.{_LONGEST_QUOTE}}", code="UNKNOWN_TYPE")
    _validated(message_class, document)
    return Request(kind, data or {})


def decode_v1(frame: str | None, max_bytes: int | None = None) -> Iterator[V1Request | Refusal]:
    """Read one frame from a client on v1.

    Args:
        frame: The frame's text, a message or an array of them; ``None`` for a binary frame.
        max_bytes: The longest message to accept, in bytes of UTF-8; ``None`` for any. An array may have
            ``ARRAY_BYTES`` more.

    Returns:
        A request, or what is wrong with it, for each message in turn: of millions of bad ones no two errors need exist
        at a time.

    Raises:
        InvalidRequestError: The frame is no JSON, or an empty array.
        MessageTooLargeError: It is too long.
    """
    text = _checked_frame(frame, None if max_bytes is None else max_bytes + ARRAY_BYTES)
    _check_marks(text, max_bytes)
    document = _parse(text)
    if isinstance(document, list):
        if not document:
            raise InvalidRequestError("Expected a message or an array of messages, got an empty array.")
        return map(_read_v1, document)
    request = _read_v1(document)
    try:
        _checked_frame(text, max_bytes)
    except MessageTooLargeError as error:
        request = Refusal(error, request.id, request.session)
    return iter((request,))


def _checked_frame(frame: str | None, max_bytes: int | None) -> str:
    if frame is None:
        raise InvalidRequestError("Expected a text frame with JSON, got a binary frame.")
    if max_bytes is not None and len(frame) * 4 > max_bytes:  # only then can it be longer than allowed
        size = len(frame.encode(errors="surrogatepass"))
        if size > max_bytes:
            raise MessageTooLargeError(size, max_bytes)
    return frame


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
                return V1Request("step", data, number, session)  # training sends little else
        session = session if isinstance(session, str) else None
    try:
        return _checked_v1(message, number, session)
    except InvalidRequestError as error:
        return Refusal(error, number, session)


def _checked_v1(message: Any, number: int | None, session: str | None) -> V1Request:
    if not isinstance(message, dict):
        example = '{"type": "open", "id": 1}'
        raise InvalidRequestError(f"Expected a message such as {example}, got {_json_type(message)}.")
    if number is None:
        got = f"{message.get('id')!r:.{_LONGEST_QUOTE}}"
        raise InvalidRequestError(f"Expected an id from 0 to {_LARGEST_ID}, got {got}.")
    if message.get("type") == "open":
        request = _validated(OpenMessage, message)
        return V1Request("open", request.data.model_dump(), number, "")
    if message.get("type") == "attach":
        attach = _validated(AttachMessage, message)
        return V1Request("attach", attach.data.model_dump(), number, attach.session)
    if session is None:
        raise InvalidRequestError("Expected the session that this message is for; open one first.")
    if message.get("type") == "fork":
        fork = _validated(ForkMessage, message)
        return V1Request("fork", fork.data.model_dump(), number, session)
    if message.get("type") == "render":
        _validated(RenderMessage, message)
        return V1Request("render", {}, number, session)
    inner = {name: value for name, value in message.items() if name not in ("id", "session")}
    request_type, data = _read_legacy(inner)
    return V1Request(request_type, data, number, session)


def decode_action(data: Mapping[str, Any], action_class: type[BaseModel], offers_tools: bool = False) -> BaseModel:
    """Make the action from a step message's ``data``.

    Args:
        data: The action's fields.
        action_class: The environment's class of actions.
        offers_tools: Whether the environment also takes the actions that list and call tools. They are known by their
            ``type``, unless the environment's own actions have such a field and take it.

    Raises:
        InvalidRequestError: The fields do not fit the action's class; ``loc`` of each entry is relative to the action.
    """
    if offers_tools and names_tool_action(data):
        return _decode_tool_action(data, action_class)
    return _validated(action_class, data)


def _decode_tool_action(data: Mapping[str, Any], action_class: type[BaseModel]) -> BaseModel:
    if _has_type_field(action_class):
        with suppress(InvalidRequestError):
            return _validated(action_class, data)
    return _validated(TOOL_ACTIONS[data["type"]], data)


@cache
def _has_type_field(action_class: type[BaseModel]) -> bool:
    fields = (field for member in action_members(action_class) for field in member.model_fields.items())
    return any("type" in (name, field.alias, field.validation_alias) for name, field in fields)


def _validated(model: type[ModelT], value: Mapping[str, Any]) -> ModelT:
    try:
        # What model_validate calls, without the checks of its arguments, which take as long again. A field that has an
        # alias may come under either name.
        return model.__pydantic_validator__.validate_python(value, by_name=True)  # type: ignore[no-any-return]
    except ValidationError as error:
        raise InvalidRequestError("Invalid message", errors=fault_entries(error)) from None


def fault_entries(error: ValidationError) -> list[dict[str, Any]]:
    """List the faults as pydantic does, without sending a large or odd input back to its sender.

    Args:
        error: What pydantic found.
    """
    entries: list[dict[str, Any]] = _document(error.errors(include_context=False)[:_MOST_FAULTS])
    for entry in entries:
        entry["loc"] = [part[:_LONGEST_QUOTE] if isinstance(part, str) else part for part in entry["loc"]]
        if len(to_json(entry["input"])) > _LONGEST_ECHO:
            del entry["input"]
    return entries


def _parse(frame: str) -> Any:
    try:
        return from_json(frame) if len(frame) <= LONG_MESSAGE else _parse_long(frame)
    except (ValueError, TypeError) as error:
        raise InvalidRequestError(f"Invalid JSON: {_standard_message(frame, error)}", code="INVALID_JSON") from None


def _parse_long(frame: str) -> Any:
    """Read a long message while no garbage is collected: what is read is none, and to look takes most of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return from_json(frame)
    finally:
        if collects:
            gc.enable()


def _standard_message(frame: str, error: Exception) -> str:
    """Say it in the words of the standard library, which the public server uses, where that finds a fault at all."""
    if len(frame) > LONG_MESSAGE:  # to read it once was long enough
        return str(error)
    try:
        json.loads(frame)
    except (ValueError, RecursionError) as standard:
        return str(standard)
    return str(error)


def _json_type(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")


def encode(kind: str, data: str) -> str:
    """Write an answer on the legacy wire.

    Args:
        kind: Its ``type``.
        data: Its ``data``, as JSON.
    """
    return f'{{"type":"{kind}","data":{data}}}'


def encode_v1(kind: str, data: str, number: int, session: str) -> str:
    """Write an answer on v1.

    Args:
        kind: Its ``type``.
        data: Its ``data``, as JSON.
        number: The request's.
        session: Name of the session, as its server has made it.
    """
    return f'{{"type":"{kind}","id":{number},"session":"{session}","data":{data}}}'


def frames_v1(messages: Iterable[str]) -> Iterator[str]:
    """Put messages into as few frames as make sense.

    Args:
        messages: JSON, in the order in which they are to arrive.

    Returns:
        The frames' texts: a message alone, or an array of some.
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


def outcome_json(outcome: Outcome, *, always_metadata: bool = False) -> str:
    """Write ``{"observation", "reward", "done"}``, and ``"metadata"`` where there is any.

    Args:
        outcome: What the reset or step gave.
        always_metadata: Whether to write ``null`` for empty metadata, as the public server does over HTTP.

    Raises:
        EnvironmentFailedError: Some value has no form in JSON. NaN and infinity become ``null``.
    """
    try:
        shown = observation_json(outcome.observation)
        metadata = _dump(outcome.metadata) if outcome.metadata else "null"
    except (ValueError, TypeError) as error:
        raise unsendable(outcome, error) from error
    reward = _scalar(outcome.reward)
    done = "true" if outcome.done else "false"
    beside = f',"metadata":{metadata}' if outcome.metadata or always_metadata else ""
    return f'{{"observation":{shown},"reward":{reward},"done":{done}{beside}}}'


def unsendable(outcome: Outcome, error: Exception) -> EnvironmentFailedError:
    """Make the error for an outcome with a value that has no form in JSON, and put it into the log.

    Args:
        outcome: What the reset or step gave.
        error: What the serialiser said.
    """
    observation = outcome.observation
    fields = {} if isinstance(observation, WrittenJson) else dict(observation)
    place = _unsendable_place({**fields, "metadata": outcome.metadata})
    name = "the observation" if isinstance(observation, WrittenJson) else type(observation).__name__
    where = name if place is None else f"{name}.{place}"
    message = f"The observation cannot be sent as JSON: {where}: {error}"
    logger.error("%s", message)
    return EnvironmentFailedError(message)


def _unsendable_place(value: Any, depth: int = 0) -> str | None:
    """Name the first place in a value that has no form in JSON; ``None`` where there is none, or it is deep down."""
    if isinstance(value, BaseModel):
        value = dict(value)
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        inner = value.items()
    elif isinstance(value, list | tuple):
        inner = enumerate(value)
    for key, each in inner:
        if _has_json(each):
            continue
        below = _unsendable_place(each, depth + 1) if depth < _DEEPEST_PLACE else None
        return str(key) if below is None else f"{key}.{below}"
    return None


def _has_json(value: Any) -> bool:
    try:
        _dump(value)
    except (ValueError, TypeError):
        return False
    return True


def observation_json(observation: BaseModel | WrittenJson) -> str:
    """Write an observation without its reward and done flag, which travel beside it.

    Raises:
        ValueError: Some value has no form in JSON; or ``TypeError``.
    """
    if isinstance(observation, WrittenJson):
        return observation.text
    # What model_dump_json calls, without the checks of its arguments, which take as long again.
    serializer = type(observation).__pydantic_serializer__
    text = serializer.to_json(observation, exclude=_BESIDE, warnings=False, fallback=plain_value).decode()
    if "null" in text and next(_with_null) % _LOOKED_AT == 0:
        _warn_of_non_finite(observation)
    return text


def _warn_of_non_finite(observation: BaseModel) -> None:
    """Have the log say, once for each class, that NaN or infinity is sent as ``null``."""
    place = _non_finite_place(dict(observation))
    if place is not None and type(observation) not in _warned and len(_warned) < _MOST_WARNED:
        _warned.add(type(observation))
        logger.warning(
            "%s.%s is not finite, which JSON has no number for: clients get null. Leave it out, or clip it.",
            type(observation).__name__,
            place,
        )


def _non_finite_place(value: Any, depth: int = 0) -> str | None:
    """Name the first place in a value that holds NaN or infinity; ``None`` where there is none, or it is deep down."""
    if isinstance(value, BaseModel):
        value = dict(value)
    elif not isinstance(value, Mapping | list | tuple | float):
        with suppress(PydanticSerializationError):
            value = plain_value(value)
    if isinstance(value, float):
        return None if math.isfinite(value) else ""
    if depth == _DEEPEST_PLACE or not isinstance(value, Mapping | list | tuple):
        return None
    for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
        below = _non_finite_place(inner, depth + 1)
        if below is not None:
            return f"{key}.{below}" if below else str(key)
    return None


def _scalar(value: Scalar | None) -> str:
    # Python writes a finite number as JSON does, in a tenth of the time.
    return repr(value) if type(value) in (float, int) else _dump(value)


def state_json(state: Any) -> str:
    """Write a state: a pydantic model, a dataclass or a mapping.

    Raises:
        EnvironmentFailedError: It is something else, or some value has no form in JSON.
    """
    if isinstance(state, WrittenJson):
        return state.text
    if not isinstance(state, BaseModel | Mapping) and not is_dataclass(state):
        raise EnvironmentFailedError(
            f"The state is of type {type(state).__name__}; expected a pydantic model, a dataclass or a mapping."
        )
    try:
        if isinstance(state, BaseModel):
            return state.model_dump_json(warnings=False, fallback=plain_value)
        return _dump(state)
    except (ValueError, TypeError) as error:
        place = _unsendable_place(state)
        where = type(state).__name__ if place is None else f"{type(state).__name__}.{place}"
        message = f"The state cannot be sent as JSON: {where}: {error}"
        logger.error("%s", message)
        raise EnvironmentFailedError(message) from error


def picture_json(picture: Picture | WrittenJson | None) -> str:
    """Write a picture; an empty object where there is nothing to see."""
    if isinstance(picture, WrittenJson):
        return picture.text
    return "{}" if picture is None else picture.model_dump_json()


def encode_error(error: RequestError) -> str:
    """Write the answer to a request that failed, on the legacy wire."""
    return error_json({"type": "error", "data": error_data(error)})


def encode_error_v1(error: RequestError, number: int | None, session: str | None) -> str:
    """Write the answer to a request that failed, on v1, with as much of its number and session as is known."""
    known = {name: value for name, value in (("id", number), ("session", session)) if value not in (None, "")}
    return error_json({"type": "error", **known, "data": error_data(error)})


def error_data(error: RequestError) -> dict[str, Any]:
    """Return an error message's ``data``, in which nothing is left that a client is not to know."""
    told = {**error.details, "message": error.message}
    told.pop("traceback", None)
    if error.traceback is None:
        told = without_secrets(_document(told))
    else:
        told["traceback"] = error.traceback
    return {"message": told.pop("message"), "code": error.code, **told}


def _document(value: Any) -> Any:
    """Make JSON's lists, dictionaries and texts of a value."""
    try:
        return from_json(error_json(value))
    except ValueError:  # a number that is longer than it reads, or more levels than it does
        return _encodable(value)


def error_json(value: Any) -> str:
    """Write what an error says, whatever it quotes: half a surrogate pair becomes a question mark, and so on."""
    try:
        return to_json(value, inf_nan_mode="null", fallback=repr).decode()
    except ValueError:
        return to_json(_encodable(value), inf_nan_mode="null").decode()


def _encodable(value: Any, above: frozenset[int] = frozenset()) -> Any:
    """Make something of a value that can be written, where ``above`` has the containers that it stands in."""
    if value is None or isinstance(value, int | float):
        return value
    here = above | {id(value)}
    if len(above) < len(here) <= _DEEPEST_QUOTE:  # neither in itself nor too deep
        if isinstance(value, Mapping):
            return {_encodable_text(key): _encodable(inner, here) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [_encodable(inner, here) for inner in value]
    return _encodable_text(value)


def _encodable_text(value: Any) -> str:
    try:
        text = value if isinstance(value, str) else repr(value)
    except Exception:  # noqa: BLE001  # an author's own __repr__ may do anything
        text = type(value).__name__
    return text.encode(errors="replace").decode()


def _dump(value: Any) -> str:
    return to_json(value, inf_nan_mode="null", fallback=plain_value).decode()
