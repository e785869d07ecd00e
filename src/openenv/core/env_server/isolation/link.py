"""Messages between a server and its environments' processes, and the socket that carries them.

A frame is a length, the number of a call, and a body. From the server, the body is a pickle, which the process trusts.
To the server, the body is JSON, because reading untrusted JSON runs no code. Frame number 0 carries a log record.
"""

import asyncio
import os
import pickle
import signal
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Annotated, Any, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json, to_json

from openenv.core.exceptions import (
    EnvironmentFactoryError,
    EnvironmentFailedError,
    EnvironmentTimeoutError,
    IllegalActionError,
    InvalidAnswerError,
    InvalidRequestError,
    ParticipantFailedError,
    RemoteTracebackError,
    RequestError,
    ResetNeededError,
    TaskNotFoundError,
    TasksUnsupportedError,
)
from openenv.core.plain_values import plain_value
from openenv.core.telemetry import SpanContext
from openenv.core.wire.answers import unsendable, written_observation
from openenv.core.wire.arrays import ArrayJson, ArrayWriter
from openenv.core.wire.errors import error_json
from openenv.core.wire.mcp_types import CallToolObservation
from openenv.core.wire.redaction import traceback_text
from openenv.core.wire.results import Outcome, WrittenJson, WrittenToolResult

LOG = 0
"""Number of frames with a log record, which answer no call."""

RUNNING_SIGNAL = signal.SIGUSR2
"""Signal to a process with a late step, which answers with the component of the reward that the step waits for."""

_HEADER = struct.Struct("<IQ")
_MOST_BYTES = 2**30

_OUTCOME, _TOOL_OUTCOME, _ARRAY_OUTCOME, _VALUE, _ERROR = b"o", b"t", b"a", b"v", b"e"
_PROGRESS, _RUNNING = b"p", b"r"
_TEXT_LENGTH = struct.Struct("<I")

# Errors of environments. Any other error is sent as its nearest base class here: an environment's process must not
# choose fields of the server's own errors, such as the seconds until a retry.
_ERROR_CLASSES: dict[str, type[RequestError]] = {
    error_class.__name__: error_class
    for error_class in (
        RequestError,
        InvalidRequestError,
        IllegalActionError,
        TaskNotFoundError,
        TasksUnsupportedError,
        ResetNeededError,
        EnvironmentFailedError,
        ParticipantFailedError,
        EnvironmentTimeoutError,
        EnvironmentFactoryError,
    )
}
# Attributes of errors beside those that all errors have.
_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "TasksUnsupportedError": ("method",),
    "EnvironmentTimeoutError": ("operation", "timeout_s"),
    "EnvironmentFactoryError": ("factory_name",),
    "ParticipantFailedError": ("participant",),
}
# An error code is a label of a metric, too.
_LONGEST_CODE = 64


class _ErrorBody(BaseModel):
    """Error as JSON on the socket; ``raised`` is the traceback of its cause."""

    model_config = ConfigDict(strict=True, extra="forbid")

    kind: str
    code: Annotated[str, Field(min_length=1, max_length=_LONGEST_CODE)]
    message: str
    details: dict[str, Any]
    errors: list[Any]
    attributes: dict[str, str | float | None]
    origin: str | None
    traceback: str | None
    raised: str | None


class Link(asyncio.Protocol):
    """End of the socket between the server and a process.

    Args:
        received: Called with each frame's number and body.
        ended: Called once, when the other end is closed.
    """

    def __init__(self, received: Callable[[int, bytes], None], ended: Callable[[], None]) -> None:
        self._received = received
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiting: list[bytes] = []
        self._rest = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport; asyncio calls this."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Split received data into frames; asyncio calls this."""
        if not self._rest:
            self._rest += data[self._cut(data) :]
            return
        self._rest += data
        del self._rest[: self._cut(self._rest)]

    def connection_lost(self, error: Exception | None) -> None:
        """Report the other end's close; asyncio calls this."""
        self._transport = None
        self._ended()

    def send(self, number: int, body: bytes) -> None:
        """Send a frame, together with other frames of the same iteration of the event loop."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting += (_HEADER.pack(len(body), number), body)

    def send_at_once(self, frames: Iterable[tuple[int, bytes]]) -> None:
        """Send small frames without the event loop, which may hang; only if no other frame is on its way.

        Args:
            frames: Number of a call and body of each frame.
        """
        transport = self._transport
        if transport is None or self._waiting or transport.get_write_buffer_size():
            return
        with suppress(OSError):  # a full socket, or a closed one
            written = b"".join(_HEADER.pack(len(body), number) + body for number, body in frames)
            os.write(transport.get_extra_info("socket").fileno(), written)

    def close(self) -> None:
        """Send the waiting frames, and close this end."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close this end at once."""
        if self._transport is not None:
            self._transport.abort()

    def _cut(self, data: bytes | bytearray) -> int:
        """Pass complete frames to ``received``. Return the number of bytes of these frames."""
        start, end = 0, len(data)
        while end - start >= _HEADER.size:
            length, number = _HEADER.unpack_from(data, start)
            if length > _MOST_BYTES:
                self.abort()
                return end
            body = start + _HEADER.size
            if end - body < length:
                break
            start = body + length
            self._received(number, bytes(data[body:start]))
        return start

    def _flush(self) -> None:
        if self._transport is not None and not self._transport.is_closing() and self._waiting:
            self._transport.write(b"".join(self._waiting))
        self._waiting.clear()


class Call(NamedTuple):
    """Call of a session's runner in a process.

    Attributes:
        session: Number of the session in its process.
        operation: ``open``, ``reset``, ``step``, ``state``, ``render``, ``render_web``, ``tasks``, ``snapshot``,
            ``restore``, ``metadata`` or ``close``.
        arguments: Arguments of the runner's method.
        spans: Context of the call's spans; ``None`` while spans are off.
    """

    session: int
    operation: str
    arguments: tuple[Any, ...]
    spans: SpanContext | None = None


CANCEL = b""
"""Body of a frame that cancels a call."""


def write_call(call: Call) -> bytes:
    """Encode a call.

    Raises:
        EnvironmentFailedError: An argument can't be pickled, or the arguments together are too large.
    """
    try:
        return _within_limit(pickle.dumps(tuple(call), pickle.HIGHEST_PROTOCOL))
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise EnvironmentFailedError(
            f"The {call.operation} can't be sent to the environment's process, because an argument can't be pickled: "
            f"{error}. Use plain data in the action's class, or isolation='none'."
        ) from error


def read_call(body: bytes) -> Call:
    """Decode a call.

    Raises:
        EnvironmentFailedError: Unpickling raised: a class of the environment did, or can't be imported in this process.
    """
    try:
        return Call(*pickle.loads(body))  # noqa: S301  # written by the server that started this process
    except Exception as error:  # an author's __setstate__ may raise anything
        raise EnvironmentFailedError(
            f"The environment's process can't read a call: {type(error).__name__}: {error}"
        ) from error


def write_outcome(outcome: Outcome) -> bytes:
    """Encode the outcome of a reset or step.

    Raises:
        EnvironmentFailedError: A value has no form in JSON, or the outcome is too large.
    """
    try:
        observation = written_observation(outcome.observation, ArrayWriter())
        head = to_json([outcome.reward, outcome.done, outcome.metadata], inf_nan_mode="null", fallback=plain_value)
    except (ValueError, TypeError) as error:
        raise unsendable(outcome, error) from error
    if isinstance(observation, ArrayJson):
        text = observation.text.encode()
        length = _TEXT_LENGTH.pack(len(text))
        return _within_limit(b"".join((_ARRAY_OUTCOME, head, b"\n", length, text, observation.buffers)))
    kind = _TOOL_OUTCOME if isinstance(outcome.observation, CallToolObservation) else _OUTCOME
    return _within_limit(b"%b%b\n%b" % (kind, head, observation.encode()))


def write_value(text: str) -> bytes:
    """Encode a result that is JSON already.

    Raises:
        EnvironmentFailedError: The result is too large.
    """
    return _within_limit(_VALUE + text.encode())


def write_error(error: RequestError) -> bytes:
    """Encode the error of a call, with the traceback of the environment's exception, for the server's log or answer."""
    kind = next(base.__name__ for base in type(error).__mro__ if _ERROR_CLASSES.get(base.__name__) is base)
    body = {
        "kind": kind,
        "code": str(error.code)[:_LONGEST_CODE],
        "message": str(error.message),
        "details": error.details,
        "errors": error.errors if isinstance(error, InvalidRequestError) else [],
        "attributes": {name: getattr(error, name) for name in _ATTRIBUTES.get(kind, ())},
        "origin": error.origin,
        "traceback": error.traceback,
        "raised": None if error.__cause__ is None else traceback_text(error.__cause__),
    }
    return _ERROR + error_json(body).encode()


def write_progress(fraction: float, message: str) -> bytes:
    """Encode the progress of a call that still runs."""
    return _within_limit(_PROGRESS + error_json([fraction, message]).encode())


def read_progress(body: bytes) -> tuple[float, str] | None:
    """Decode a call's progress; return ``None`` where the body is the answer.

    Raises:
        ValueError: The body is neither.
    """
    if not body.startswith(_PROGRESS):
        return None
    fraction, message = from_json(body[1:])
    return float(fraction or 0.0), str(message)


def write_running(component: str | None) -> bytes:
    """Encode the path of the component of the reward that a late step waits for."""
    return _RUNNING + error_json(component or "").encode()


def read_running(body: bytes) -> str | None:
    """Decode what a late step waits for: empty where it is no component; ``None`` where the body is something else.

    Raises:
        ValueError: The body is not JSON.
    """
    return str(from_json(body[1:])) if body.startswith(_RUNNING) else None


def read_answer(body: bytes) -> Outcome | WrittenJson:
    """Decode the answer to a call.

    Raises:
        RequestError: The call failed; this is the error of the environment's process.
        ValueError: The body is not an answer; or ``TypeError``.
    """
    if body.startswith(_ARRAY_OUTCOME):
        return _read_array_outcome(body)
    kind, rest = body[:1], body[1:]
    if kind in (_OUTCOME, _TOOL_OUTCOME):
        head, _, observation = rest.partition(b"\n")
        reward, done, metadata = from_json(head)
        written = WrittenJson if kind == _OUTCOME else WrittenToolResult
        return Outcome(written(observation.decode()), reward, done, metadata)
    if kind == _VALUE:
        return WrittenJson(rest.decode())
    sent = _ErrorBody.model_validate_json(rest)
    raise _restored(sent) from (None if sent.raised is None else RemoteTracebackError(sent.raised))


def _read_array_outcome(body: bytes) -> Outcome:
    """Decode an outcome whose observation has arrays: of their bytes only one copy is made."""
    view, end = memoryview(body), body.index(b"\n")
    reward, done, metadata = from_json(body[1:end])
    if len(body) - end <= _TEXT_LENGTH.size:
        raise ValueError("an outcome with arrays ends before its observation")
    begin = end + 1 + _TEXT_LENGTH.size
    after = begin + _TEXT_LENGTH.unpack_from(body, end + 1)[0]
    try:
        observation = ArrayJson.checked(str(view[begin:after], "utf-8"), bytes(view[after:]))
    except InvalidAnswerError as error:
        raise ValueError(f"{error}") from error
    return Outcome(WrittenJson(observation), reward, done, metadata)


def _restored(sent: _ErrorBody) -> RequestError:
    error_class = _ERROR_CLASSES.get(sent.kind)
    if error_class is None:
        raise ValueError(f"{sent.kind!r} is not an error of an environment")
    error = error_class.__new__(error_class, sent.message)
    error.code, error.message, error.details = sent.code, sent.message, sent.details
    error.origin, error.traceback = sent.origin, sent.traceback
    for name in _ATTRIBUTES.get(sent.kind, ()):
        setattr(error, name, sent.attributes[name])
    if isinstance(error, InvalidRequestError):
        error.errors = [fault for fault in sent.errors if _is_fault(fault)]
    return error


def _is_fault(value: Any) -> bool:
    """Return whether a value is an entry of pydantic's list of errors, which the server reads."""
    return isinstance(value, dict) and isinstance(value.get("loc"), list) and "msg" in value


def _within_limit(body: bytes) -> bytes:
    if len(body) > _MOST_BYTES:
        raise EnvironmentFailedError(
            f"Expected at most {_MOST_BYTES} bytes between the server and the environment's process, got {len(body)}."
        )
    return body
