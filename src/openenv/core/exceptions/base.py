"""Errors of both sides, and the base of all errors."""

from collections.abc import Mapping
from typing import Any


class OpenEnvError(Exception):
    """Base of every error raised by OpenEnv."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle message and attributes, whatever the arguments of the class."""
        return _restored, (type(self), self.args, vars(self))


def _restored(kind: type[OpenEnvError], args: tuple[Any, ...], attributes: Mapping[str, Any]) -> OpenEnvError:
    # Of several built-in bases, OSError is the one with a layout of its own, and only its __new__ makes such an object.
    base = OSError if issubclass(kind, OSError) else Exception
    error = base.__new__(kind, *args)
    error.args = args
    vars(error).update(attributes)
    return error


class ConfigurationError(OpenEnvError, ValueError):
    """Settings that contradict each other, or that no value can satisfy."""


class IncompleteTraceError(ConfigurationError):
    """Entries of an episode are not on record: they could not be written, or what it was forked from is removed."""


class ConcurrencyConfigurationError(ConfigurationError):
    """More than one session was configured for an environment class that does not declare support for them.

    Attributes:
        environment_name: Name of the environment's class or factory.
        max_concurrent_envs: The configured number of sessions.
    """

    def __init__(self, environment_name: str, max_concurrent_envs: int, message: str | None = None) -> None:
        self.environment_name = environment_name
        self.max_concurrent_envs = max_concurrent_envs
        super().__init__(
            message
            or f"{environment_name} was to serve {max_concurrent_envs} sessions at once, but does not declare that its "
            "instances are independent. If they are, set SUPPORTS_CONCURRENT_SESSIONS = True on the class; "
            "otherwise serve one at a time: max_concurrent_envs=1, or --sessions 1 where `openenv eval` or `collect` "
            "starts the server."
        )


class RemoteTracebackError(OpenEnvError):
    """Cause of an error that was raised in another process; its text is the traceback."""


class ProviderError(OpenEnvError, RuntimeError):
    """A server could not be started, or ended before it was ready.

    Attributes:
        logs: The end of the output of the server, or of its build; ``None`` if it is not known.
    """

    def __init__(self, message: str, logs: str | None = None) -> None:
        self.logs = logs
        end = "" if logs is None else f" The end of its log:\n{logs.strip() or '(it printed nothing)'}"
        super().__init__(f"{message}{end}")


class ServerNotReadyError(ProviderError, TimeoutError):
    """A started server was not ready in time. A ``TimeoutError`` too, as programs expect."""


class HubError(OpenEnvError, RuntimeError):
    """The Hugging Face Hub rejected a request, or could not be reached.

    Attributes:
        status: The HTTP status of its answer; ``None`` without an answer.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class GitServerError(OpenEnvError, RuntimeError):
    """A Git server did not answer as expected, or a Git command on its repositories failed."""


class EnvironmentNotFoundError(OpenEnvError, LookupError, ValueError):
    """No environment has this name. A ``ValueError`` too, as programs for the public package expect."""


class VerdictError(OpenEnvError, ValueError):
    """The verdict of a judge can't be read. No reward is made up in its place.

    Args:
        reason: What was expected and what came.
        answer: The judge's answer.
    """

    def __init__(self, reason: str, answer: str) -> None:
        self.reason = reason
        self.answer = answer
        super().__init__(f"{reason} The judge's answer: {answer!r:.200}")


class SandboxError(OpenEnvError, RuntimeError):
    """A sandbox can't execute a request."""


class SandboxUnavailableError(SandboxError):
    """Code of a model can't be run, because this machine has no sandbox for it."""


class SandboxFileError(SandboxError):
    """A file in a sandbox can't be read or written.

    Attributes:
        path: Path of the file, as requested.
        reason: The reason.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"The file {path!r} in the sandbox can't be used: {reason}.")
