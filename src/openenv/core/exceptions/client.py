"""Errors that are raised in the client: error answers of the server, and failures of the connection."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from openenv.core.exceptions.base import OpenEnvError, ProviderError
from openenv.core.exceptions.codes import ErrorCode
from openenv.core.exceptions.failures import FailureKind

_MOST_NOTES = 8
_LONGEST_NOTE = 300


def _notes(errors: Sequence[Any], message: str) -> list[str]:
    """Return notes on the faults of a request that the message does not name, as in ``word: Field required``."""
    faults = [error for error in errors if isinstance(error, dict) and isinstance(error.get("loc"), list)]
    faults = [fault for fault in faults if str(fault.get("msg")) not in message]
    return [_note(fault)[:_LONGEST_NOTE] for fault in faults[:_MOST_NOTES]]


def _note(fault: Mapping[str, Any]) -> str:
    where = ".".join(map(str, fault["loc"]))
    text = f"{where}: {fault.get('msg')}" if where else str(fault.get("msg"))
    came = fault.get("input")
    return f"{text}, got {came!r}" if isinstance(came, str | int | float | bool) else text


def _detail_notes(details: Mapping[str, Any]) -> list[str]:
    """Return notes with the further fields of an error frame, for debugging."""
    return [f"{name}:\n{value}" if name == "traceback" else f"{name}: {value!r}" for name, value in details.items()]


class ServerError(OpenEnvError, RuntimeError):
    """The server answered with an error frame.

    With ``OPENENV_DEBUG=1``, its details are shown with its traceback.

    Attributes:
        message: The server's message.
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
        # Programs for the public package match the beginning of the text; the faults of fields follow.
        notes = "; ".join(_notes(self.errors, message))
        super().__init__(f"Server error: {message} (code: {code})" + (f": {notes}" if notes else ""))
        if os.environ.get("OPENENV_DEBUG") == "1":
            for note in _detail_notes(self.details):
                self.add_note(note)

    @staticmethod
    def from_frame(data: Mapping[str, Any]) -> "ServerError":
        """Make the error for an error frame.

        Args:
            data: The frame's ``data``: ``message``, ``code`` and further fields.

        Returns:
            An instance of the code's subclass, or of ``ServerError`` for an unknown code.
        """
        details = {key: value for key, value in data.items() if key not in ("message", "code")}
        code = str(data.get("code", "UNKNOWN"))
        kind = _ERRORS_BY_CODE.get(code, ServerError)
        if details.get("reset_needed"):
            kind = EpisodeOrderError
        elif details.get("mode") == "production":
            kind = ServerProductionModeError
        elif code == ErrorCode.EXECUTION_ERROR and "participant" in details:
            kind = ServerParticipantError
        elif code == ErrorCode.TOO_LARGE and details.get("may_have_happened"):  # the answer, not the request
            kind = ServerError
        return kind(str(data.get("message", "")), code, details)


class RequestRejectedError(ServerError):
    """The request was invalid, or the environment's rules reject it; nothing happened."""


class ServerSessionError(ServerError):
    """The session does not exist, or its state does not allow the request."""


class EpisodeOrderError(ServerSessionError):
    """A step was sent before the first reset, or after the episode ended; a ``reset`` resolves it."""


class ServerProductionModeError(ServerSessionError):
    """The request is not allowed in production mode, which serves only agents; the session goes on."""


class ServerExecutionError(ServerError):
    """The environment raised an exception."""


class ServerParticipantError(ServerExecutionError):
    """A participant of the environment failed, such as its user or an opponent; the message has its name."""


class ServerTimeoutError(ServerError, TimeoutError):
    """The environment took longer than the server allows; the step may have happened."""


class ServerFactoryError(ServerError):
    """The server could not make an environment for this session."""


class ServerSessionLostError(ServerError):
    """The session can't be resumed; the message has the reason. The next call opens a new session."""


class ServerUnauthorizedError(ServerError):
    """The token is missing or wrong."""


class ServerRateLimitedError(ServerError):
    """The client exceeded the server's rate limit; nothing happened."""

    @property
    def retry_after_s(self) -> float:
        """Seconds after which the server accepts the next message."""
        delay_s = self.details.get("retry_after_s")
        return float(delay_s) if isinstance(delay_s, int | float) else 0.0


class ServerCapacityError(ServerError):
    """The server or this client has reached its limit of sessions, or the server is draining."""

    @property
    def of_client(self) -> bool:
        """Whether the limit and the counts are of this client alone."""
        return self.details.get("scope") == "client"

    @property
    def draining(self) -> bool:
        """Whether the server is about to end and opens no more sessions."""
        return self.details.get("draining") is True

    @property
    def active_sessions(self) -> int:
        """Sessions open on the server."""
        return self._count("active_sessions")

    @property
    def max_sessions(self) -> int:
        """The limit of sessions."""
        return self._count("max_sessions")

    def _count(self, name: str) -> int:
        count = self.details.get(name)
        return count if isinstance(count, int) else 0


_ERRORS_BY_CODE: dict[str, type[ServerError]] = {
    ErrorCode.INVALID_JSON: RequestRejectedError,
    ErrorCode.UNKNOWN_TYPE: RequestRejectedError,
    ErrorCode.VALIDATION_ERROR: RequestRejectedError,
    ErrorCode.TOO_LARGE: RequestRejectedError,
    ErrorCode.SESSION_ERROR: ServerSessionError,
    ErrorCode.EXECUTION_ERROR: ServerExecutionError,
    ErrorCode.TIMEOUT: ServerTimeoutError,
    ErrorCode.FACTORY_ERROR: ServerFactoryError,
    ErrorCode.CAPACITY_REACHED: ServerCapacityError,
    ErrorCode.SESSION_LOST: ServerSessionLostError,
    ErrorCode.UNAUTHORIZED: ServerUnauthorizedError,
    ErrorCode.RATE_LIMITED: ServerRateLimitedError,
}


class InvalidAnswerError(OpenEnvError, RuntimeError):
    """The server sent an invalid answer, or one that does not fit the client's classes."""


class MissingRewardError(InvalidAnswerError):
    """The result that ended an episode has no reward, as where a verifier wrote none; that is no reward of 0."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(
            message
            or "The result that ended the episode has no reward; expected a finite number, 0 included. The episode "
            "does not count."
        )


class InvalidRewardError(InvalidAnswerError):
    """A result has a reward that is no finite number.

    Attributes:
        reward: The reward, as text.
    """

    def __init__(self, reward: object) -> None:
        self.reward = repr(reward)
        super().__init__(f"The environment gave the reward {self.reward:.100}; expected a finite number or none.")


class ModelAnswerError(InvalidAnswerError):
    """The server of a language model gave no answer that can be read, each time that it was requested."""


class ModelUnavailableError(ModelAnswerError):
    """The server of a language model is full, fails, or gives no answer, each time that it was requested.

    Attributes:
        failure: The kind of its failure.
    """

    def __init__(self, message: str, failure: FailureKind) -> None:
        self.failure = failure
        super().__init__(message)


class ToolCallError(OpenEnvError, RuntimeError):
    """A tool call gave no result: the tool failed or does not exist, or the episode has ended.

    Attributes:
        tool_name: Name of the tool.
        message: The server's message.
        code: The code of JSON-RPC: -32603 if the tool failed, -32000 if the session could not be used.
        data: Further data of the error; if the session could not be used, a dict with its ``code`` on the wire.
    """

    def __init__(self, tool_name: str, message: str, code: int, data: Any = None) -> None:
        self.tool_name = tool_name
        self.message = message
        self.code = code
        self.data = data
        super().__init__(f"Tool {tool_name!r} failed: {message}")


class ToolArgumentsError(OpenEnvError, ValueError):
    """The arguments of a tool call make no action. Nothing happened.

    Attributes:
        tool_name: Name of the tool.
        message: What is wrong with them.
    """

    def __init__(self, tool_name: str, message: str) -> None:
        self.tool_name = tool_name
        self.message = message
        super().__init__(f"The arguments of {tool_name!r} make no action: {message}")


class ConnectionFailedError(OpenEnvError, ConnectionError):
    """No connection could be made to the server."""


class ConnectionLostError(OpenEnvError, ConnectionError):
    """The connection was lost before an answer arrived; whether the request was executed is not known."""


class RequestNotSentError(ConnectionLostError):
    """A session was lost before the request was sent: nothing happened. A reset is sent again automatically."""


class RequestGivenUpError(ConnectionLostError):
    """Each connection was lost after a request was sent on it: the request may have been executed, or be the cause.

    Attributes:
        connections: Number of these connections.
    """

    def __init__(self, connections: int, reason: str) -> None:
        self.connections = connections
        super().__init__(
            f"The request was sent on {connections} connections, and each went before the answer came; it may be what "
            f"ended them. It is not sent again, and its session was given up. The last time: {reason}. The next call "
            "opens a new session."
        )


class ServerEndedError(ProviderError, ConnectionLostError):
    """The server process that was started for a client has ended, and every session with it.

    Whether an open request was executed is not known.
    """


class ResponseTimeoutError(OpenEnvError, TimeoutError):
    """No answer arrived within the client's ``message_timeout_s``; whether the request was executed is not known."""


class SlotError(OpenEnvError, RuntimeError):
    """Some sessions of a vector failed: one error for all of them.

    Attributes:
        errors: The errors by slot.
        num_envs: Number of sessions in the vector.
    """

    def __init__(self, errors: Mapping[int, OpenEnvError], num_envs: int) -> None:
        self.errors = dict(errors)
        self.num_envs = num_envs
        slot, error = next(iter(self.errors.items()))
        slots = ", ".join(map(str, self.errors))
        super().__init__(f"{len(self.errors)} of {num_envs} slots failed: {slots}. Slot {slot}: {error}")


class HandleUsedError(OpenEnvError, RuntimeError):
    """A handle of a client was resolved twice, or used before it was resolved."""


class ClientModeError(OpenEnvError, RuntimeError):
    """One client was used from blocking code and from a running event loop at the same time."""
