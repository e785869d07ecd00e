"""The errors of both sides, and what all errors have."""

from collections.abc import Mapping
from typing import Any


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
            "otherwise use max_concurrent_envs=1 (--sessions 1 of `openenv eval` and `collect`)."
        )


class RemoteTracebackError(OpenEnvError):
    """Stands for an exception that was raised in another process, as an error's cause; its text is the traceback."""


class ProviderError(OpenEnvError, RuntimeError):
    """A server could not be started, or ended before it was ready.

    Attributes:
        logs: The end of what the server, or what builds its environment, has printed; ``None`` where nobody asked it.
    """

    def __init__(self, message: str, logs: str | None = None) -> None:
        self.logs = logs
        end = "" if logs is None else f" The end of its log:\n{logs.strip() or '(it printed nothing)'}"
        super().__init__(f"{message}{end}")


class ServerNotReadyError(ProviderError, TimeoutError):
    """A server that was started did not get ready in time. A ``TimeoutError`` too, as programs expect."""


class HubError(OpenEnvError, RuntimeError):
    """The Hugging Face Hub refused what was asked of it, or could not be reached.

    Attributes:
        status: The HTTP status of its answer; ``None`` where there was no answer.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class EnvironmentNotFoundError(OpenEnvError, LookupError, ValueError):
    """No environment is known by this name. A ``ValueError`` too, as programs for the public package expect."""


class SandboxError(OpenEnvError, RuntimeError):
    """A sandbox can't do what was asked."""


class SandboxUnavailableError(SandboxError):
    """Code that a model wrote can't be run here, because there is nothing to keep it in."""


class SandboxFileError(SandboxError):
    """A file in a sandbox can't be read or written.

    Attributes:
        path: Of the file, as it was asked for.
        reason: Why not.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"The file {path!r} in the sandbox can't be used: {reason}.")
