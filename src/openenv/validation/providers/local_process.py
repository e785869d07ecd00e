"""Provider for machines without Docker: the server runs in a confined process."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openenv.core.documents import read_text
from openenv.core.exceptions import ServerNotReadyError
from openenv.core.providers.confined_process import ConfinedProcessProvider, can_confine_servers
from openenv.core.providers.docker.labels import NESTED_SANDBOX
from openenv.core.providers.local_process import LocalProcessProvider
from openenv.images.dockerfile import DOCKERFILES
from openenv.validation.manifest import ExecutionDeclaration
from openenv.validation.providers import (
    MAX_LOG_BYTES,
    ExecResult,
    ProviderError,
    StartupError,
    UnsupportedCapability,
    check_log_size,
)
from openenv.validation.providers.network_measurement import (
    MEASURE_TIMEOUT_S,
    Sink,
    network_evidence,
    run_probe,
)
from openenv.validation.runtime.contracts import LaunchSpec
from openenv.validation.source import read_source, source_digest
from openenv.validation.types import ProviderCapability

NOT_READY = "Subject did not return HTTP 200 from /health before its deadline"
_MEBIBYTE = 2**20


class LocalProcessValidationProvider:
    """Provider that starts a package's server in a confined process of this machine.

    It needs neither Docker nor an image: the package runs with this interpreter's packages. Where the machine has
    bubblewrap, the server has no network but the declared one, can write to folders in memory only, and sees no other
    process. Elsewhere nothing is enforced, and no capability is claimed.

    Attributes:
        name: ``local-process``.
        capabilities: ``NETWORK_POLICY`` where servers can be confined.
        supported_network_modes: ``public``, and ``no-network`` where servers can be confined.

    Example:
        >>> LocalProcessValidationProvider().name
        'local-process'
    """

    name = "local-process"

    def __init__(self) -> None:
        is_confining = can_confine_servers()
        self.capabilities = frozenset({ProviderCapability.NETWORK_POLICY} if is_confining else ())
        self.supported_network_modes = frozenset({"public", "no-network"} if is_confining else {"public"})
        # Folders of what was built, by their digests.
        self._built: dict[str, Path] = {}

    def build(self, root: Path, execution: ExecutionDeclaration) -> str:
        """Return the digest of a package's files, by which it is started; there is nothing to build.

        Args:
            root: Folder of the package.
            execution: Its declaration, whose Dockerfile is not used.

        Raises:
            EnvironmentNotFoundError: The folder holds no environment.
            ProviderError: It has files that are no regular ones.
        """
        folder = read_source(root).folder
        try:
            digest = f"sha256:{source_digest(folder)}"
        except ValueError as error:
            raise ProviderError(f"{folder}: {error}") from error
        self._built[digest] = folder
        return digest

    def start(self, spec: LaunchSpec) -> "LocalProcessSubject":
        """Start a package's server, and wait until it is healthy.

        Args:
            spec: What is started.

        Raises:
            StartupError: The server ended, or was not healthy in time.
            UnsupportedCapability: The network mode or a GPU can't be had, or it makes sandboxes of its own.
            ProviderError: This provider has not built the package.
        """
        mode, folder = spec.network.mode, self._built.get(spec.image_ref)
        if mode not in self.supported_network_modes:
            raise UnsupportedCapability(f"{self.name} does not enforce {mode}")
        if spec.resources.gpus:
            raise UnsupportedCapability(f"{self.name} does not provide GPU isolation")
        if folder is None:
            raise ProviderError(f"{self.name} has not built {spec.image_ref}; call build() with its folder before.")
        if self.capabilities and _makes_sandboxes(folder):
            raise UnsupportedCapability(
                f"{self.name} can't confine an environment that makes sandboxes of its own; use docker-local"
            )
        provider = self._provider(folder, spec)
        try:
            provider.launch(spec.startup_timeout_s)
        except ServerNotReadyError as error:
            raise StartupError(NOT_READY, error.logs) from error
        except ProviderError as error:
            raise StartupError(str(error)) from error
        return LocalProcessSubject(provider, spec)

    def _provider(self, folder: Path, spec: LaunchSpec) -> LocalProcessProvider:
        if ProviderCapability.NETWORK_POLICY not in self.capabilities:
            return LocalProcessProvider(folder, env_vars=spec.env_vars, grace_s=1.0)
        return ConfinedProcessProvider(
            folder,
            network=spec.network.mode == "public",
            disk_bytes=spec.resources.disk_mb * _MEBIBYTE,
            env_vars=spec.env_vars,
            grace_s=1.0,
        )


def _makes_sandboxes(folder: Path) -> bool:
    """Return whether a package's image is labelled for sandboxes of its own."""
    dockerfiles = [folder / name for name in DOCKERFILES]
    return any(file.is_file() and NESTED_SANDBOX in read_text(file) for file in dockerfiles)


class LocalProcessSubject:
    """Running server of a package, in a process of this machine.

    Attributes:
        base_url: Address of the server.

    Example:
        >>> subject = provider.start(spec)  # doctest: +SKIP
        >>> subject.inspect()["confined"]  # doctest: +SKIP
        True
    """

    def __init__(self, provider: LocalProcessProvider, spec: LaunchSpec) -> None:
        self.base_url = provider.base_url
        self._provider = provider
        self._spec = spec
        self._log = ""

    def inspect(self) -> dict[str, Any]:
        """Return what is known about the process, and which limits are enforced."""
        confined = self._confined()
        return {
            "pid": self._provider.pid,
            "confined": confined is not None,
            "network_mode": self._network_mode(),
            "disk_bytes": None if confined is None else confined.disk_bytes,
            "cpu_enforced": False,
            "memory_enforced": False,
        }

    def logs(self, max_bytes: int = MAX_LOG_BYTES) -> str:
        """Return the end of what the server has printed, also after its end.

        Raises:
            ValueError: The number of bytes is out of range.
        """
        check_log_size(max_bytes)
        return self._provider.logs(max_bytes) or self._log.encode()[-max_bytes:].decode(errors="replace")

    def exec(self, argv: Sequence[str], timeout_s: float) -> ExecResult:
        """Refuse: a program beside the server would not be within its confinement.

        Raises:
            UnsupportedCapability: Always.
        """
        raise UnsupportedCapability("local-process runs no programs beside the server; use docker-local")

    def measure_network(self, timeout_s: float = MEASURE_TIMEOUT_S) -> dict[str, Any]:
        """Measure the network that the server reaches.

        Args:
            timeout_s: Seconds that each attempt may take.

        Returns:
            The evidence, as ``NetworkEvidence`` has it.

        Raises:
            ProviderError: It can't be measured.
        """
        confined = self._confined()
        pid = self._provider.pid if confined is None else confined.inner_pid
        if pid is None:
            raise ProviderError("The server has ended, so its network can't be measured.")
        python = [sys.executable]
        with Sink(python) as sink:
            control = run_probe(python, sink.address, timeout_s)
            subject = run_probe(python, sink.address, timeout_s, pid)
        return network_evidence(self._spec.network.mode, self._network_mode(), control, subject)

    def stop(self) -> None:
        """End the server, and all that it has started. May be called twice."""
        self._log = self._provider.logs(MAX_LOG_BYTES) or self._log
        self._provider.stop()

    def _confined(self) -> ConfinedProcessProvider | None:
        return self._provider if isinstance(self._provider, ConfinedProcessProvider) else None

    def _network_mode(self) -> str:
        confined = self._confined()
        return "host" if confined is None or confined.network else "none"
