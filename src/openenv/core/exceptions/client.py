"""Errors that are raised in the client: what the server answered, and what befell the connection."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from openenv.core.exceptions.base import OpenEnvError, ProviderError

_MOST_NOTES = 8
_LONGEST_NOTE = 300


def _notes(errors: Sequence[Any], message: str) -> list[str]:
    """Say what is wrong with each field of a request, as in ``word: Field required``, where the message does not."""
    faults = [error for error in errors if isinstance(error, dict) and isinstance(error.get("loc"), list)]
    faults = [fault for fault in faults if str(fault.get("msg")) not in message]
    return [_note(fault)[:_LONGEST_NOTE] for fault in faults[:_MOST_NOTES]]


def _note(fault: Mapping[str, Any]) -> str:
    where = ".".join(map(str, fault["loc"]))
    text = f"{where}: {fault.get('msg')}" if where else str(fault.get("msg"))
    came = fault.get("input")
    return f"{text}, got {came!r}" if isinstance(came, str | int | float | bool) else text


def _detail_notes(details: Mapping[str, Any]) -> list[str]:
    """Write out the further fields of an error frame, for those who debug."""
    return [f"{name}:\n{value}" if name == "traceback" else f"{name}: {value!r}" for name, value in details.items()]


class ServerError(OpenEnvError, RuntimeError):
    """The server answered with an error frame.

    With ``OPENENV_DEBUG=1`` its details are shown wherever its traceback is.

    Attributes:
        message: The server's sentence.
        code: The code on the wire.
        details: Further fields of the frame.
        errors: One entry for each fault of an invalid request.
    """

    def __init__(self, message: str, code: str, details: Mapping[str, Any] | None = None) -> None:
        self.message = message
        self.code = code
        self.details = dict(details or {})
        errors = self.details.get("errors")
        self.errors: list[dict[str, Any]] = errors if isinstance(errors, list) else []
        # Programs for the public package look for what begins the text; what is wrong with each field follows.
        notes = "; ".join(_notes(self.errors, message))
        super().__init__(f"Server error: {message} (code: {code})" + (f": {notes}" if notes else ""))
        if os.environ.get("OPENENV_DEBUG") == "1":
            for note in _detail_notes(self.details):
                self.add_note(note)

    @staticmethod
    def from_frame(data: Mapping[str, Any]) -> "ServerError":
        """Make the error for an error frame.

        Args:
            data: The frame's ``data``: ``message``, ``code`` and whatever else the server sent.

        Returns:
            An instance of the subclass that stands for the code, or of ``ServerError`` for an unknown one.
        """
        details = {key: value for key, value in data.items() if key not in ("message", "code")}
        code = str(data.get("code", "UNKNOWN"))
        kind = _ERRORS_BY_CODE.get(code, ServerError)
        if details.get("reset_needed"):
            kind = EpisodeOrderError
        elif details.get("mode") == "production":
            kind = ServerProductionModeError
        elif code == "TOO_LARGE" and details.get("may_have_happened"):  # the answer was, not the request
            kind = ServerError
        return kind(str(data.get("message", "")), code, details)


class RequestRejectedError(ServerError):
    """The server could not understand the request, or the environment's rules refuse it; nothing happened."""


class ServerSessionError(ServerError):
    """The session is not there, or not in a state in which it could do this."""


class EpisodeOrderError(ServerSessionError):
    """A step before the first reset, or after the episode ended; a ``reset`` mends it."""


class ServerProductionModeError(ServerSessionError):
    """The server is in production mode, which has tools for agents and nothing of this; the session goes on."""


class ServerExecutionError(ServerError):
    """The environment raised an exception."""


class ServerTimeoutError(ServerError, TimeoutError):
    """The environment took longer than the server allows; the step may have happened."""


class ServerFactoryError(ServerError):
    """The server could not make an environment for this session."""


class ServerSessionLostError(ServerError):
    """The session can't be taken up again where it stood; the message says why. The next call opens a new one."""


class ServerUnauthorizedError(ServerError):
    """The server asks for a token, or for another one."""


class ServerRateLimitedError(ServerError):
    """The server takes no more messages from this client for the moment; nothing happened."""

    @property
    def retry_after_s(self) -> float:
        """Seconds after which it takes the next one."""
        delay_s = self.details.get("retry_after_s")
        return float(delay_s) if isinstance(delay_s, int | float) else 0.0


class ServerCapacityError(ServerError):
    """Every session of the server is taken, or every one that a single client may have; or the server is ending."""

    @property
    def of_client(self) -> bool:
        """Whether the limit and the counts are those of this client alone."""
        return self.details.get("scope") == "client"

    @property
    def draining(self) -> bool:
        """Whether the server is about to end and opens no sessions any more."""
        return self.details.get("draining") is True

    @property
    def active_sessions(self) -> int:
        """Sessions open on the server."""
        return self._count("active_sessions")

    @property
    def max_sessions(self) -> int:
        """The server's limit."""
        return self._count("max_sessions")

    def _count(self, name: str) -> int:
        count = self.details.get(name)
        return count if isinstance(count, int) else 0


_ERRORS_BY_CODE: dict[str, type[ServerError]] = {
    "INVALID_JSON": RequestRejectedError,
    "UNKNOWN_TYPE": RequestRejectedError,
    "VALIDATION_ERROR": RequestRejectedError,
    "TOO_LARGE": RequestRejectedError,
    "SESSION_ERROR": ServerSessionError,
    "EXECUTION_ERROR": ServerExecutionError,
    "TIMEOUT": ServerTimeoutError,
    "FACTORY_ERROR": ServerFactoryError,
    "CAPACITY_REACHED": ServerCapacityError,
    "SESSION_LOST": ServerSessionLostError,
    "UNAUTHORIZED": ServerUnauthorizedError,
    "RATE_LIMITED": ServerRateLimitedError,
}


class InvalidAnswerError(OpenEnvError, RuntimeError):
    """The server sent something that is no answer, or that does not fit the client's classes."""


class ToolCallError(OpenEnvError, RuntimeError):
    """A tool call gave no result: the tool failed or does not exist, or the episode has ended.

    Attributes:
        tool_name: Name of the tool.
        message: What the server says.
        code: The code of JSON-RPC: -32603 where the tool failed, -32000 where the session could not be used.
        data: What else the server says; for a session that could not be used, a dict with its ``code`` on the wire.
    """

    def __init__(self, tool_name: str, message: str, code: int, data: Any = None) -> None:
        self.tool_name = tool_name
        self.message = message
        self.code = code
        self.data = data
        super().__init__(f"Tool {tool_name!r} failed: {message}")


class ConnectionFailedError(OpenEnvError, ConnectionError):
    """No connection could be made to the server."""


class ConnectionLostError(OpenEnvError, ConnectionError):
    """The connection went while an answer was awaited; whether the request was executed is not known."""


class RequestNotSentError(ConnectionLostError):
    """A session was lost before the request was sent: nothing of it has happened. A reset asks again by itself."""


class RequestGivenUpError(ConnectionLostError):
    """Each connection that a request was sent on went before its answer came: it may have happened, and ended them.

    Attributes:
        connections: How many it was sent on.
    """

    def __init__(self, connections: int, reason: str) -> None:
        self.connections = connections
        super().__init__(
            f"The request was sent on {connections} connections, and each went before the answer came; it may be what "
            f"ended them. It is not sent again, and its session was given up. The last time: {reason}. The next call "
            "opens a new session."
        )


class ServerEndedError(ProviderError, ConnectionLostError):
    """The process of the server that was started for a client has ended, and every session with it.

    Whether a request that was under way was executed is not known.
    """


class ResponseTimeoutError(OpenEnvError, TimeoutError):
    """No answer came within the client's ``message_timeout_s``; whether the request was executed is not known."""


class SlotError(OpenEnvError, RuntimeError):
    """Some sessions of a vector failed, where a caller can't be given an error for each of them.

    Attributes:
        errors: What each of them failed with, by its slot.
        num_envs: Sessions in the vector.
    """

    def __init__(self, errors: Mapping[int, OpenEnvError], num_envs: int) -> None:
        self.errors = dict(errors)
        self.num_envs = num_envs
        slot, error = next(iter(self.errors.items()))
        slots = ", ".join(map(str, self.errors))
        super().__init__(f"{len(self.errors)} of {num_envs} slots failed: {slots}. Slot {slot}: {error}")


class HandleUsedError(OpenEnvError, RuntimeError):
    """A handle of a client was resolved a second time, or used where it has to be resolved first."""


class ClientModeError(OpenEnvError, RuntimeError):
    """One client was used from blocking code and from a running event loop at the same time."""
