"""Every error that OpenEnv raises, in one tree.

::

    OpenEnvError
    ├── ConfigurationError (ValueError)         settings that contradict each other
    │   └── ConcurrencyConfigurationError       many sessions for a class that allows one
    ├── RequestError                            raised on the server, sent as an error frame
    │   ├── InvalidRequestError                 INVALID_JSON, UNKNOWN_TYPE, VALIDATION_ERROR: nothing happened
    │   │   ├── IllegalActionError (ValueError) VALIDATION_ERROR: raised by an environment that refuses an action
    │   │   └── TaskNotFoundError (IndexError)   VALIDATION_ERROR: raised by an environment that has no such task
    │   ├── TasksUnsupportedError               EXECUTION_ERROR: the environment does not say this of its tasks
    │   ├── MessageTooLargeError                TOO_LARGE: nothing happened
    │   ├── AnswerTooLargeError                 TOO_LARGE: it happened, but its answer is more than the client takes
    │   ├── ResetNeededError                    SESSION_ERROR: a step before reset, or after the end of the episode
    │   ├── EnvironmentFailedError              EXECUTION_ERROR: the environment raised, or returned what cannot be sent
    │   │   └── EnvironmentProcessEndedError    EXECUTION_ERROR: the process that it ran in has ended
    │   ├── EnvironmentTimeoutError             TIMEOUT: it took longer than it was given
    │   ├── EnvironmentFactoryError             FACTORY_ERROR: no instance could be made
    │   ├── SessionCapacityError                CAPACITY_REACHED: every session is taken
    │   │   ├── ClientCapacityError             CAPACITY_REACHED: those that this client may have are
    │   │   └── DrainingError                   CAPACITY_REACHED: the server ends, and opens none any more
    │   ├── RateLimitedError                    RATE_LIMITED: more messages than a client may send; nothing happened
    │   ├── SessionNotFoundError                SESSION_ERROR: no such session (any more)
    │   ├── ProductionModeError                 SESSION_ERROR: the server serves agents only; nothing happened
    │   ├── ForkError                           EXECUTION_ERROR: a session can't be forked, and why
    │   ├── JournalError                        EXECUTION_ERROR: the journal can't be read or written
    │   ├── SessionLostError                    SESSION_LOST: it can't be taken up again, and why
    │   ├── UnauthorizedError                   UNAUTHORIZED: the token is missing, or is another one
    │   └── SessionCreationError                SESSION_ERROR: a session could not be opened
    ├── ServerError (RuntimeError)              raised in the client for an error frame; one subclass per kind
    │   ├── RequestRejectedError                INVALID_JSON, UNKNOWN_TYPE, VALIDATION_ERROR, TOO_LARGE
    │   ├── EpisodeOrderError                   SESSION_ERROR that a reset mends
    │   ├── ServerProductionModeError           SESSION_ERROR: the server serves agents only
    │   ├── ServerSessionError                  SESSION_ERROR
    │   ├── ServerExecutionError                EXECUTION_ERROR
    │   ├── ServerTimeoutError (TimeoutError)   TIMEOUT
    │   ├── ServerFactoryError                  FACTORY_ERROR
    │   ├── ServerSessionLostError              SESSION_LOST
    │   ├── ServerUnauthorizedError             UNAUTHORIZED
    │   ├── ServerRateLimitedError              RATE_LIMITED
    │   └── ServerCapacityError                 CAPACITY_REACHED
    ├── InvalidAnswerError (RuntimeError)       the server sent something that is no answer
    ├── ToolCallError (RuntimeError)            raised in the client: a tool gave no result
    ├── ConnectionFailedError (ConnectionError) no connection could be made
    ├── ConnectionLostError (ConnectionError)   the connection went while an answer was awaited
    │   ├── RequestNotSentError                 before it was asked for: nothing happened
    │   └── RequestGivenUpError                 again and again, whenever this request was sent
    ├── ResponseTimeoutError (TimeoutError)     no answer within the client's message timeout
    ├── RemoteTracebackError                    stands for what was raised in another process
    ├── SlotError (RuntimeError)                some sessions of a vector failed, where one error stands for all
    ├── ClientModeError (RuntimeError)          one client used from blocking and from async code at once
    ├── ProviderError (RuntimeError)            a server could not be started, or died
    └── EnvironmentNotFoundError (LookupError)  no environment of that name

A ``RequestError`` knows its code on the wire and the fields that go with it; ``ServerError.from_frame``
is the way back. Both families carry data in attributes and make the sentence from it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

_MOST_NOTES = 8


class OpenEnvError(Exception):
    """Base of every error raised by OpenEnv."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Carry message and attributes to another process, whatever arguments the class is made with."""
        return _restored, (type(self), self.args, vars(self))


def _restored(kind: type[OpenEnvError], args: tuple[Any, ...], attributes: Mapping[str, Any]) -> OpenEnvError:
    # Of several built-in bases, OSError is the one with a layout of its own, and the only one to make such an object.
    base = OSError if issubclass(kind, OSError) else Exception
    error = base.__new__(kind, *args)
    error.args = args
    vars(error).update(attributes)
    return error


class ConfigurationError(OpenEnvError, ValueError):
    """Settings that contradict each other, or that no value can satisfy."""


class ConcurrencyConfigurationError(ConfigurationError):
    """More than one session was asked of an environment class that does not say it supports them.

    Attributes:
        environment_name: Name of the environment's class or factory.
        max_concurrent_envs: The number of sessions asked for.
    """

    def __init__(self, environment_name: str, max_concurrent_envs: int, message: str | None = None) -> None:
        self.environment_name = environment_name
        self.max_concurrent_envs = max_concurrent_envs
        super().__init__(
            message
            or f"{environment_name} was to serve {max_concurrent_envs} sessions at once, but does not declare that its "
            "instances are independent. If they are, set SUPPORTS_CONCURRENT_SESSIONS = True on the class; "
            "otherwise use max_concurrent_envs=1."
        )


class RequestError(OpenEnvError):
    """A request that the server answers with an error frame.

    Attributes:
        code: The code on the wire.
        message: What the client is told.
        details: Further fields of the frame's ``data``.
        traceback: Where the environment raised, for a server that debugs to tell; ``None`` where nobody is to know.
    """

    code: str = "SESSION_ERROR"
    traceback: str | None = None

    def __init__(self, message: str, **details: Any) -> None:
        self.message = message
        self.details = details
        super().__init__(message)


class InvalidRequestError(RequestError):
    """A request that could not be understood; nothing was executed.

    Attributes:
        errors: One entry for each fault, as pydantic lists them.
    """

    def __init__(
        self, message: str, *, code: str = "VALIDATION_ERROR", errors: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        self.code = code
        self.errors = list(errors)
        super().__init__(message, **({"errors": self.errors} if errors else {}))


class IllegalActionError(InvalidRequestError, ValueError):
    """Raised by an environment whose rules refuse an action; the episode goes on as if it had not been sent.

    Args:
        message: What was expected, what came, and what to do.

    Example:
        >>> raise IllegalActionError("'zzzzz' is not in the word list; guess an English word")
        Traceback (most recent call last):
        ...
        openenv.core.exceptions.IllegalActionError: 'zzzzz' is not in the word list; guess an English word
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, errors=[{"type": "illegal_action", "loc": [], "msg": message}])


class TaskNotFoundError(InvalidRequestError, IndexError):
    """The environment has no such task, or no such split. Nothing happened.

    Args:
        message: What was asked for.
    """

    def __init__(self, message: str = "Invalid task index") -> None:
        super().__init__(message)


class TasksUnsupportedError(RequestError):
    """The environment lacks a method by which it would list its tasks, or says that it does not implement it.

    Attributes:
        method: Name of the method.
    """

    code = "EXECUTION_ERROR"

    def __init__(self, method: str) -> None:
        self.method = method
        super().__init__(f"{method} is not supported for this environment")


class MessageTooLargeError(RequestError):
    """A message above the server's limit; it was not read."""

    code = "TOO_LARGE"

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(f"The message has {size} bytes; this server accepts {limit}.", size=size, limit=limit)


class AnswerTooLargeError(RequestError):
    """An answer above what the client takes; what it was asked for has happened."""

    code = "TOO_LARGE"

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            f"The answer has {size} bytes; the client takes {limit} (its max_message_size_mb, in bytes).",
            size=size,
            limit=limit,
            may_have_happened=True,
        )


class ResetNeededError(RequestError):
    """A step before the first reset, or after the episode ended; nothing was executed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reset_needed=True)


class EnvironmentFailedError(RequestError):
    """The environment raised an exception, or returned something that cannot be sent.

    The cause is chained as ``__cause__`` and logged on the server.
    """

    code = "EXECUTION_ERROR"


class EnvironmentProcessEndedError(EnvironmentFailedError):
    """The process that the environment ran in has ended, and the episode with it; a reset starts anew.

    Attributes:
        how: How it ended, as in ``exited with status 3``.
        may_have_happened: Whether the call had been given to the environment.
    """

    def __init__(self, operation: str, how: str, *, may_have_happened: bool) -> None:
        self.how = how
        self.may_have_happened = may_have_happened
        fate = "may have happened" if may_have_happened else "was not executed"
        super().__init__(
            f"The environment's process {how}; the {operation} {fate}. A reset starts a new episode in a new process.",
            may_have_happened=may_have_happened,
        )


class EnvironmentTimeoutError(RequestError):
    """The environment took longer than it was given. Whether the call took effect is not known."""

    code = "TIMEOUT"

    def __init__(self, operation: str, timeout_s: float, message: str | None = None) -> None:
        self.operation = operation
        self.timeout_s = timeout_s
        super().__init__(
            message or f"{operation} did not finish within {timeout_s:g} s; it may still take effect.",
            operation=operation,
            timeout_s=timeout_s,
            may_have_happened=True,
        )


class EnvironmentFactoryError(RequestError):
    """The factory raised instead of making an environment.

    Attributes:
        factory_name: Name of the class or function.
    """

    code = "FACTORY_ERROR"

    def __init__(self, factory_name: str, message: str | None = None) -> None:
        self.factory_name = factory_name
        super().__init__(
            message or f"Environment factory '{factory_name}' failed to create instance.", factory_name=factory_name
        )


class SessionCapacityError(RequestError):
    """Every session of the server is taken.

    Attributes:
        active_sessions: Sessions open now.
        max_sessions: The server's limit.
    """

    code = "CAPACITY_REACHED"

    def __init__(self, active_sessions: int, max_sessions: int, message: str | None = None, **details: Any) -> None:
        self.active_sessions = active_sessions
        self.max_sessions = max_sessions
        super().__init__(
            message
            or f"Server at capacity: {active_sessions}/{max_sessions} sessions active. Cannot accept new connections.",
            active_sessions=active_sessions,
            max_sessions=max_sessions,
            **details,
        )


class ClientCapacityError(SessionCapacityError):
    """A client holds as many sessions as one client may; the counts are its own."""

    def __init__(self, active_sessions: int, max_sessions: int) -> None:
        super().__init__(
            active_sessions,
            max_sessions,
            f"You have {active_sessions} of the {max_sessions} sessions that this server grants to one client; close "
            "some first. A client is whoever comes from the same address.",
            scope="client",
        )


class DrainingError(SessionCapacityError):
    """The server is about to end; it finishes the episodes under way and opens no sessions any more."""

    def __init__(self, active_sessions: int, max_sessions: int) -> None:
        super().__init__(
            active_sessions,
            max_sessions,
            "The server is about to end and opens no further sessions; try another one, or this one when it is back.",
            draining=True,
        )


class RateLimitedError(RequestError):
    """A client sent more messages than it may; nothing was executed.

    Attributes:
        max_messages_per_s: How many it may send in a second.
        retry_after_s: Seconds after which the next one is taken.
    """

    code = "RATE_LIMITED"

    def __init__(self, max_messages_per_s: float, retry_after_s: float) -> None:
        self.max_messages_per_s = max_messages_per_s
        self.retry_after_s = retry_after_s
        super().__init__(
            f"Messages come too fast: this server takes {max_messages_per_s:g} a second. Nothing happened; send it "
            f"again in {retry_after_s:.3g} s.",
            max_messages_per_s=max_messages_per_s,
            retry_after_s=retry_after_s,
        )


class SessionNotFoundError(RequestError):
    """No session has this id (any more).

    Attributes:
        session_id: The id that was asked for.
    """

    def __init__(self, session_id: str, message: str | None = None) -> None:
        self.session_id = session_id
        super().__init__(message or f"Unknown session_id: {session_id}")


class ProductionModeError(RequestError):
    """A trainer's request to a server in production mode, which serves agents only; nothing was executed.

    Attributes:
        operation: What was asked for.
    """

    def __init__(self, operation: str) -> None:
        self.operation = operation
        super().__init__(
            f"Expected an MCP message, got {operation}: this server is in production mode and serves agents only. To "
            "train or to test on it, start it with mode='simulation' (OPENENV_MODE=simulation). Nothing happened.",
            mode="production",
        )


class ForkError(RequestError):
    """A session can't be forked; it goes on as if nobody had asked.

    Attributes:
        reasons: Why not, for each way that was tried.
    """

    code = "EXECUTION_ERROR"

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        tried = "; ".join(f"with {way}: {reason.rstrip('.')}" for way, reason in self.reasons.items())
        super().__init__(f"The session can't be forked. What was tried: {tried}.", reasons=self.reasons)


class JournalError(RequestError):
    """The journal can't be opened or read, or what a replay needs is not on record because it can't be written."""

    code = "EXECUTION_ERROR"

    def __init__(self, message: str) -> None:
        super().__init__(message, may_have_happened=True)


class SessionLostError(RequestError):
    """A session can't be taken up again where it stood.

    Attributes:
        reason: Why not.
        kind: The same in a word, as the server counts it: ``ended``; ``incomplete``, where its record is;
            ``unrepeatable`` requests; ``different`` answers; or another ``environment``.
    """

    code = "SESSION_LOST"

    def __init__(self, reason: str, kind: str = "incomplete") -> None:
        self.reason = reason
        self.kind = kind
        super().__init__(f"The session is lost: {reason}")


class UnauthorizedError(RequestError):
    """Who asks has not shown that it may."""

    code = "UNAUTHORIZED"


class SessionCreationError(RequestError):
    """A session could not be opened.

    Attributes:
        reason: Why not.
    """

    def __init__(self, reason: str, message: str | None = None) -> None:
        self.reason = reason
        super().__init__(message or f"The session could not be opened: {reason}")


def _notes(errors: Sequence[Any]) -> list[str]:
    """Say what is wrong with each field of a request, as in ``action.word: Field required``."""
    faults = [error for error in errors if isinstance(error, dict) and isinstance(error.get("loc"), list)]
    return [f"{'.'.join(map(str, fault['loc']))}: {fault.get('msg')}" for fault in faults[:_MOST_NOTES]]


class ServerError(OpenEnvError, RuntimeError):
    """The server answered with an error frame.

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
        super().__init__(f"Server error: {message} (code: {code})")
        for note in _notes(self.errors):
            self.add_note(note)  # shown below a traceback; the text itself is what programs for the public one expect

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


class RemoteTracebackError(OpenEnvError):
    """Stands for an exception that was raised in another process, as an error's cause; its text is the traceback."""


class ClientModeError(OpenEnvError, RuntimeError):
    """One client was used from blocking code and from a running event loop at the same time."""


class ProviderError(OpenEnvError, RuntimeError):
    """A server could not be started, or ended before it was ready."""


class EnvironmentNotFoundError(OpenEnvError, LookupError):
    """No environment is known by this name."""
