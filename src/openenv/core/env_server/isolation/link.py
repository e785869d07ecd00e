"""What a server and its environments' processes say to each other, and the socket on which they say it.

A frame is a length, the number of a call, and a body. From the server, the body is a pickle: it trusts itself. To the
server it is JSON, because reading JSON runs no code, whoever wrote it. Frame number 0 carries a log record.
"""

import asyncio
import pickle
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from pydantic_core import from_json, to_json

from openenv.core import exceptions
from openenv.core.env_server.disclosure import traceback_text
from openenv.core.env_server.outcomes import Outcome, WrittenJson
from openenv.core.env_server.protocol import error_json, observation_json, unsendable
from openenv.core.exceptions import EnvironmentFailedError, RemoteTracebackError, RequestError
from openenv.core.plain_values import plain_value

LOG = 0
"""The number of frames that answer no call."""

_HEADER = struct.Struct("<IQ")
_MOST_BYTES = 2**30

_OUTCOME, _VALUE, _ERROR, _PROGRESS = b"o", b"v", b"e", b"p"


class Link(asyncio.Protocol):
    """One end of the socket between the server and a process.

    Args:
        received: Called with each frame's number and body.
        ended: Called once, when the other end has gone.
    """

    def __init__(self, received: Callable[[int, bytes], None], ended: Callable[[], None]) -> None:
        self._received = received
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiting: list[bytes] = []
        self._rest = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; asyncio calls this."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Cut what came into frames; asyncio calls this."""
        if not self._rest:
            self._rest += data[self._cut(data) :]
            return
        self._rest += data
        del self._rest[: self._cut(self._rest)]

    def connection_lost(self, error: Exception | None) -> None:
        """Pass it on; asyncio calls this."""
        self._transport = None
        self._ended()

    def send(self, number: int, body: bytes) -> None:
        """Send a frame, together with others that are sent in the same turn of the loop."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting += (_HEADER.pack(len(body), number), body)

    def close(self) -> None:
        """Send what waits, and close this end."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close this end at once."""
        if self._transport is not None:
            self._transport.abort()

    def _cut(self, data: bytes | bytearray) -> int:
        """Hand on the frames that are complete. Returns how many bytes they are long."""
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
    """What the server asks of a process.

    Attributes:
        session: Number of the session in its process.
        operation: ``open``, ``reset``, ``step``, ``state``, ``render``, ``tasks``, ``snapshot``, ``restore``,
            ``metadata`` or ``close``.
        arguments: Those of the runner's method.
    """

    session: int
    operation: str
    arguments: tuple[Any, ...]


CANCEL = b""
"""The body that takes a call back."""


def write_call(call: Call) -> bytes:
    """Write a call.

    Raises:
        EnvironmentFailedError: An argument can't be pickled, or they are too large together.
    """
    try:
        return _within_limit(pickle.dumps(tuple(call), pickle.HIGHEST_PROTOCOL))
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise EnvironmentFailedError(
            f"The {call.operation} can't be sent to the environment's process, because an argument can't be pickled: "
            f"{error}. Use plain data in the action's class, or isolation='none'."
        ) from error


def read_call(body: bytes) -> Call:
    """Read a call.

    Raises:
        EnvironmentFailedError: Unpickling raised; a class of the environment's did, or is not there in this process.
    """
    try:
        return Call(*pickle.loads(body))  # noqa: S301  # written by the server that started this process
    except Exception as error:  # an author's __setstate__ may raise anything
        raise EnvironmentFailedError(
            f"The environment's process can't read what it was sent: {type(error).__name__}: {error}"
        ) from error


def write_outcome(outcome: Outcome) -> bytes:
    """Write what a reset or step gave.

    Raises:
        EnvironmentFailedError: Some value has no form in JSON, or all are too large together.
    """
    try:
        observation = observation_json(outcome.observation)
        head = to_json([outcome.reward, outcome.done, outcome.metadata], inf_nan_mode="null", fallback=plain_value)
    except (ValueError, TypeError) as error:
        raise unsendable(outcome, error) from error
    return _within_limit(b"%b%b\n%b" % (_OUTCOME, head, observation.encode()))


def write_value(text: str) -> bytes:
    """Write a result that is JSON already.

    Raises:
        EnvironmentFailedError: It is too large.
    """
    return _within_limit(_VALUE + text.encode())


def write_error(error: RequestError) -> bytes:
    """Write why a call failed, with the traceback of what the environment raised, should the server want to tell it."""
    known = next(kind for kind in type(error).__mro__ if getattr(exceptions, kind.__name__, None) is kind)
    attributes = {**vars(error), "code": error.code}
    raised = None if error.__cause__ is None else traceback_text(error.__cause__)
    return _ERROR + error_json([known.__name__, attributes, raised]).encode()


def write_progress(fraction: float, message: str) -> bytes:
    """Write how far a call is, whose answer is still to come."""
    return _within_limit(_PROGRESS + error_json([fraction, message]).encode())


def read_progress(body: bytes) -> tuple[float, str] | None:
    """Read how far a call is; ``None`` where the body is its answer.

    Raises:
        ValueError: It is neither.
    """
    if not body.startswith(_PROGRESS):
        return None
    fraction, message = from_json(body[1:])
    return float(fraction or 0.0), str(message)


def read_answer(body: bytes) -> Outcome | WrittenJson:
    """Read the answer to a call.

    Raises:
        RequestError: The call failed, with the error that the environment's process raised.
        ValueError: It is no answer; or ``TypeError``.
    """
    kind, rest = body[:1], body[1:]
    if kind == _OUTCOME:
        head, _, observation = rest.partition(b"\n")
        reward, done, metadata = from_json(head)
        return Outcome(WrittenJson(observation.decode()), reward, done, metadata)
    if kind == _VALUE:
        return WrittenJson(rest.decode())
    name, attributes, raised = from_json(rest)
    raise _restored(name, attributes) from (None if raised is None else RemoteTracebackError(raised))


def _restored(kind: str, attributes: dict[str, Any]) -> RequestError:
    error_class = getattr(exceptions, kind, None)
    if not isinstance(error_class, type) or not issubclass(error_class, RequestError):
        raise ValueError(f"{kind!r} is no error of a request")
    error = error_class.__new__(error_class, attributes.get("message"))
    vars(error).update(attributes)
    return error


def _within_limit(body: bytes) -> bytes:
    if len(body) > _MOST_BYTES:
        raise EnvironmentFailedError(
            f"This would send {len(body)} bytes between the server and the environment's process; "
            f"at most {_MOST_BYTES} are allowed."
        )
    return body
