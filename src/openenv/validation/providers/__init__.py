"""Providers of validation: they build a package, start it confined, and describe what they enforce."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from openenv.core.exceptions import ProviderError
from openenv.validation.manifest import ExecutionDeclaration
from openenv.validation.runtime.contracts import LaunchSpec
from openenv.validation.types import ProviderCapability

__all__ = [
    "ExecResult",
    "ProviderError",
    "RunningSubject",
    "StartupError",
    "UnsupportedCapability",
    "ValidationProvider",
]

MAX_LOG_BYTES = 65_536
"""Bytes of a subject's log that are returned at most."""


class StartupError(ProviderError):
    """The subject was started, and its server did not get ready."""


class UnsupportedCapability(ProviderError):  # noqa: N818  # the public name
    """The provider can't enforce what the package declares."""


@dataclass(frozen=True)
class ExecResult:
    """Result of a program that was run beside a server.

    Attributes:
        exit_code: Its exit code.
        stdout: Its standard output.
        stderr: Its standard error.
        duration_s: Seconds that it took.

    Example:
        >>> ExecResult(exit_code=0, stdout="3.12", stderr="", duration_s=0.1).exit_code
        0
    """

    exit_code: int
    stdout: str
    stderr: str
    duration_s: float


@runtime_checkable
class RunningSubject(Protocol):
    """Server of a package, started by a provider.

    Attributes:
        base_url: Address of the server.

    Example:
        >>> issubclass(dict, RunningSubject)  # doctest: +SKIP
        False
    """

    base_url: str

    def inspect(self) -> Mapping[str, Any]:
        """Return the provider's own description of the subject: what it enforces, and with which values."""
        ...

    def logs(self, max_bytes: int = MAX_LOG_BYTES) -> str:
        """Return the end of what the server has printed."""
        ...

    def exec(self, argv: Sequence[str], timeout_s: float) -> ExecResult:
        """Run a program beside the server, within the same confinement."""
        ...

    def stop(self) -> None:
        """End the subject, and all that it has started. May be called twice."""
        ...


@runtime_checkable
class ValidationProvider(Protocol):
    """Provider that builds packages and starts them.

    Attributes:
        name: Name of the provider, for reports.
        capabilities: Its capabilities; what is not among them is not enforced.
        supported_network_modes: Network modes that it enforces.

    Example:
        >>> isinstance(object(), ValidationProvider)
        False
    """

    name: str
    capabilities: frozenset[ProviderCapability]
    supported_network_modes: frozenset[str]

    def build(self, root: Path, execution: ExecutionDeclaration) -> str:
        """Build a package, and return its digest, by which it is started."""
        ...

    def start(self, spec: LaunchSpec) -> RunningSubject:
        """Start a subject, and wait until it is ready.

        Raises:
            StartupError: It does not get ready.
            UnsupportedCapability: The provider can't enforce what the specification has.
            ProviderError: The provider itself failed.
        """
        ...


def check_log_size(max_bytes: int) -> None:
    """Check the number of bytes that ``RunningSubject.logs`` is called with.

    Raises:
        ValueError: It is out of range.
    """
    if not 1 <= max_bytes <= MAX_LOG_BYTES:
        raise ValueError(f"max_bytes must be between 1 and {MAX_LOG_BYTES}")
