"""Errors that are raised on the server: each is the answer to a request, sent as an error frame."""

from collections.abc import Mapping, Sequence
from typing import Any

from openenv.core.exceptions.base import OpenEnvError


class RequestError(OpenEnvError):
    """A request that the server answers with an error frame.

    Attributes:
        code: The code on the wire.
        message: What the client is told.
        details: Further fields of the frame's ``data``.
        traceback: Where the environment raised, for a server that debugs to tell; ``None`` where nobody is to know.
        origin: The message with the type, file and line of what the environment raised, for a server that debugs to
            tell in place of ``message``; ``None`` where nothing was raised.
    """

    code: str = "SESSION_ERROR"
    traceback: str | None = None
    origin: str | None = None

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
        openenv.core.exceptions.server.IllegalActionError: 'zzzzz' is not in the word list; guess an English word
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


class TooManyValuesError(RequestError):
    """A message with so many values that reading it would keep other clients waiting; it was not read."""

    code = "TOO_LARGE"

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

    def __init__(self, message: str, *, origin: str | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.origin = origin


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


class ServerFailedError(EnvironmentFailedError):
    """The server met an error of its own, or of the environment's where none was expected. Its log has the traceback.

    Args:
        message: What the client is told.
    """

    def __init__(self, message: str = "The server failed on this request; its log says why.") -> None:
        super().__init__(message, may_have_happened=True)


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

    def __init__(self, factory_name: str, message: str | None = None, origin: str | None = None) -> None:
        self.factory_name = factory_name
        sentence = f"Environment factory '{factory_name}' failed to create instance."
        super().__init__(message or sentence, factory_name=factory_name)
        self.origin = None if origin is None else f"{sentence} {origin}"


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

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message, may_have_happened=True, **details)


class TakenElsewhereError(JournalError):
    """Another server took a session up at the same moment; whoever still wants it here may ask again.

    Attributes:
        retry_after_s: When to ask again.
    """

    def __init__(self, retry_after_s: float = 0.2) -> None:
        self.retry_after_s = retry_after_s
        super().__init__("Another server has just taken this session up; ask again.", retry_after_s=retry_after_s)


class SessionLostError(RequestError):
    """A session can't be taken up again where it stood.

    Attributes:
        reason: Why not.
        kind: The same in a word, as the server counts it: ``ended``; ``incomplete``, where its record is;
            ``unrepeatable`` requests; ``different`` answers; another ``environment``; or ``elsewhere``, where another
            server has it.
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
