"""Errors that are raised on the server, and sent as error frames."""

from collections.abc import Mapping, Sequence
from typing import Any

from openenv.core.exceptions.base import OpenEnvError
from openenv.core.exceptions.codes import ErrorCode
from openenv.core.exceptions.failures import FailureKind


class RequestError(OpenEnvError):
    """Error of a request, which the server answers with an error frame.

    Attributes:
        code: The code on the wire.
        message: The message for the client.
        details: Further fields of the frame's ``data``.
        traceback: Traceback of the environment's exception, for clients of a server with ``debug``; else ``None``.
        origin: The message with the type, file and line of the environment's exception, which a server with ``debug``
            sends instead of ``message``; ``None`` if the environment did not raise.
    """

    code: str = ErrorCode.SESSION_ERROR
    traceback: str | None = None
    origin: str | None = None

    def __init__(self, message: str, **details: Any) -> None:
        self.message = message
        self.details = details
        super().__init__(message)


class InvalidRequestError(RequestError):
    """The request is invalid; nothing was executed.

    Attributes:
        errors: One entry for each fault, as pydantic lists them.
    """

    def __init__(
        self, message: str, *, code: str = ErrorCode.VALIDATION_ERROR, errors: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        self.code = code
        self.errors = list(errors)
        super().__init__(message, **({"errors": self.errors} if errors else {}))


class IllegalActionError(InvalidRequestError, ValueError):
    """The environment's rules reject an action; the episode goes on as if it had not been sent.

    Args:
        message: What was expected, what was received, and what to do.

    Example:
        >>> raise IllegalActionError("'zzzzz' is not in the word list; guess an English word")
        Traceback (most recent call last):
        ...
        openenv.core.exceptions.server.IllegalActionError: 'zzzzz' is not in the word list; guess an English word
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, errors=[{"type": "illegal_action", "loc": [], "msg": message}])


class TaskNotFoundError(InvalidRequestError, IndexError):
    """The environment has no such task, or no such split. Nothing happened.

    Args:
        message: The message, which names the requested task.
    """

    def __init__(self, message: str = "Invalid task index") -> None:
        super().__init__(message)


class TasksUnsupportedError(RequestError):
    """The environment lacks a method that lists its tasks, or the method raises ``NotImplementedError``.

    Attributes:
        method: Name of the method.
    """

    code = ErrorCode.EXECUTION_ERROR

    def __init__(self, method: str) -> None:
        self.method = method
        super().__init__(f"{method} is not supported for this environment")


class MessageTooLargeError(RequestError):
    """A message is above the server's limit of bytes; it was not parsed."""

    code = ErrorCode.TOO_LARGE

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(f"The message has {size} bytes; this server accepts {limit}.", size=size, limit=limit)


class TooManyValuesError(RequestError):
    """A message has so many values that parsing it would delay other clients; it was not parsed."""

    code = ErrorCode.TOO_LARGE

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            f"The message has {size} commas, colons and opening brackets; this server accepts {limit}. Send fewer "
            "values, or a long list of numbers as one string.",
            size=size,
            limit=limit,
        )


class AnswerTooLargeError(RequestError):
    """An answer is above the client's limit of bytes; the request was executed."""

    code = ErrorCode.TOO_LARGE

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
    """A step was sent before the first reset, or after the episode ended; nothing was executed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reset_needed=True)


class EnvironmentFailedError(RequestError):
    """The environment raised an exception, or returned a value without a JSON form.

    The cause is chained as ``__cause__`` and logged on the server.
    """

    code = ErrorCode.EXECUTION_ERROR

    def __init__(self, message: str, *, origin: str | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.origin = origin


class EnvironmentProcessEndedError(EnvironmentFailedError):
    """The environment's process has ended, and the episode with it; a reset starts a new one.

    Attributes:
        how: How the process ended, as in ``exited with status 3``.
        may_have_happened: Whether the call had been sent to the environment.
    """

    def __init__(self, operation: str, how: str, *, may_have_happened: bool) -> None:
        self.how = how
        self.may_have_happened = may_have_happened
        fate = "may have happened" if may_have_happened else "was not executed"
        super().__init__(
            f"The environment's process {how}; the {operation} {fate}. A reset starts a new episode in a new process.",
            may_have_happened=may_have_happened,
            failure=FailureKind.PROCESS_ENDED.value,
        )


class ParticipantFailedError(EnvironmentFailedError):
    """A participant of the environment, such as its user or an opponent, gave no reply that can be used.

    The episode is no evidence about the agent.

    Args:
        participant: Name of the participant in the episode.
        reason: The reason, in words.
        usage: What it has used so far in the episode, as JSON; ``None`` if that is not known.

    Example:
        >>> raise ParticipantFailedError("user", "it wrote nothing")
        Traceback (most recent call last):
        ...
        openenv.core.exceptions.server.ParticipantFailedError: The participant 'user' failed: it wrote nothing
    """

    def __init__(self, participant: str, reason: str, usage: Mapping[str, Any] | None = None) -> None:
        self.participant = participant
        super().__init__(
            f"The participant {participant!r} failed: {reason}",
            participant=participant,
            failure=FailureKind.PARTICIPANT.value,
        )
        if usage is not None:
            self.details["participants"] = {participant: dict(usage)}


class ServerFailedError(EnvironmentFailedError):
    """Internal error of the server, or unexpected error of the environment. The server's log has the traceback.

    Args:
        message: The message for the client.
    """

    def __init__(self, message: str = "The server failed on this request; its log says why.") -> None:
        super().__init__(message, may_have_happened=True)


class EnvironmentTimeoutError(RequestError):
    """The environment exceeded its time limit. Whether the call took effect is not known."""

    code = ErrorCode.TIMEOUT

    def __init__(self, operation: str, timeout_s: float, message: str | None = None) -> None:
        self.operation = operation
        self.timeout_s = timeout_s
        super().__init__(
            message or f"{operation} did not finish within {timeout_s:g} s; it may still take effect.",
            operation=operation,
            timeout_s=timeout_s,
            may_have_happened=True,
        )

    def blame_component(self, component: str) -> None:
        """Add which component of the reward did not return.

        Args:
            component: Its path.
        """
        self.message += f" The reward component {component!r} did not return."
        self.details["component"] = component


class EnvironmentFactoryError(RequestError):
    """The factory raised instead of making an environment.

    Attributes:
        factory_name: Name of the class or function.
    """

    code = ErrorCode.FACTORY_ERROR

    def __init__(self, factory_name: str, message: str | None = None, origin: str | None = None) -> None:
        self.factory_name = factory_name
        sentence = f"Environment factory '{factory_name}' failed to create instance."
        super().__init__(message or sentence, factory_name=factory_name)
        self.origin = None if origin is None else f"{sentence} {origin}"


class SessionCapacityError(RequestError):
    """Every slot of the server is in use.

    Attributes:
        active_sessions: Sessions open now.
        max_sessions: The server's limit.
    """

    code = ErrorCode.CAPACITY_REACHED

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
    """A client has reached its limit of sessions; the counts are its own."""

    def __init__(self, active_sessions: int, max_sessions: int) -> None:
        super().__init__(
            active_sessions,
            max_sessions,
            f"You have {active_sessions} of the {max_sessions} sessions that this server grants to one client; close "
            "some first. All connections from one address, or with one named token, count as one client.",
            scope="client",
        )


class DrainingError(SessionCapacityError):
    """The server is draining: it waits for running episodes and opens no more sessions."""

    def __init__(self, active_sessions: int, max_sessions: int) -> None:
        super().__init__(
            active_sessions,
            max_sessions,
            "The server is about to end and opens no further sessions; try another one, or this one when it is back.",
            draining=True,
        )


class RateLimitedError(RequestError):
    """A client exceeded its rate limit; nothing was executed.

    Attributes:
        max_messages_per_s: The limit, in messages per second.
        retry_after_s: Seconds after which the next message is accepted.
    """

    code = ErrorCode.RATE_LIMITED

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
    """No session has this id, or it has ended.

    Attributes:
        session_id: The requested id.
    """

    def __init__(self, session_id: str, message: str | None = None) -> None:
        self.session_id = session_id
        super().__init__(message or f"Unknown session_id: {session_id}")


class ProductionModeError(RequestError):
    """A trainer's request reached a server in production mode, which serves agents only; nothing was executed.

    Attributes:
        operation: The requested operation.
    """

    def __init__(self, operation: str) -> None:
        self.operation = operation
        super().__init__(
            f"Expected an MCP message, got {operation}: this server is in production mode and serves agents only. To "
            "train or to test on it, start it with mode='simulation' (OPENENV_MODE=simulation). Nothing happened.",
            mode="production",
        )


class ForkError(RequestError):
    """A session can't be forked; it goes on unchanged.

    Attributes:
        reasons: The reason for each method that was tried.
    """

    code = ErrorCode.EXECUTION_ERROR

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        tried = "; ".join(f"with {way}: {reason.rstrip('.')}" for way, reason in self.reasons.items())
        super().__init__(f"The session can't be forked. What was tried: {tried}.", reasons=self.reasons)


class JournalError(RequestError):
    """The journal can't be opened or read, or it lacks entries for a replay because it can't be written."""

    code = ErrorCode.EXECUTION_ERROR

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message, may_have_happened=True, **details)


class AcquiredElsewhereError(JournalError):
    """Another server resumed a session at the same moment; the request may be sent again.

    Attributes:
        retry_after_s: Seconds after which to send the request again.
    """

    def __init__(self, retry_after_s: float = 0.2) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(
            "Another server has just resumed this session; send the request again.", retry_after_s=retry_after_s
        )


class SessionLostError(RequestError):
    """A session can't be resumed.

    Attributes:
        reason: The reason.
        kind: The reason in a word, for metrics: ``ended``; ``incomplete`` history; ``unrepeatable`` requests;
            ``different`` answers; another ``environment``; or ``elsewhere``, if another server has the session.
    """

    code = ErrorCode.SESSION_LOST

    def __init__(self, reason: str, kind: str = "incomplete") -> None:
        self.reason = reason
        self.kind = kind
        super().__init__(f"The session is lost: {reason}")


class UnauthorizedError(RequestError):
    """The peer has not shown a valid token."""

    code = ErrorCode.UNAUTHORIZED


class SessionCreationError(RequestError):
    """A session could not be opened.

    Attributes:
        reason: The reason.
    """

    def __init__(self, reason: str, message: str | None = None) -> None:
        self.reason = reason
        super().__init__(message or f"The session could not be opened: {reason}")
