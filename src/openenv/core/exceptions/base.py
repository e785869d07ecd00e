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
            "otherwise use max_concurrent_envs=1."
        )


class RemoteTracebackError(OpenEnvError):
    """Stands for an exception that was raised in another process, as an error's cause; its text is the traceback."""


class ProviderError(OpenEnvError, RuntimeError):
    """A server could not be started, or ended before it was ready."""


class EnvironmentNotFoundError(OpenEnvError, LookupError):
    """No environment is known by this name."""
