"""Provider over this machine's Docker engine: a package's image is built, and its container confined."""

import math
import os
import re
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from openenv.auto.manifest import load_manifest
from openenv.core.exceptions import ServerNotReadyError
from openenv.core.providers.docker.engine import connect, engine_failing
from openenv.core.providers.docker.provider import LocalDockerProvider
from openenv.core.providers.resources import Resources
from openenv.core.wire.names import AUTH_NONE, AUTH_VARIABLE
from openenv.images.builder import Build, build_image, default_tag
from openenv.validation.manifest import ExecutionDeclaration
from openenv.validation.providers import (
    MAX_LOG_BYTES,
    ExecResult,
    ProviderError,
    StartupError,
    UnsupportedCapability,
    check_log_size,
)
from openenv.validation.providers.local_process import NOT_READY
from openenv.validation.providers.network_measurement import MEASURE_TIMEOUT_S, Sink, network_evidence, run_probe
from openenv.validation.runtime.contracts import LaunchSpec
from openenv.validation.types import ProviderCapability

HELPER_IMAGE = "python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea"
"""Image of the programs that measure a subject's network, by default."""

_PINNED = re.compile(r"(?:[^@\s]+@)?sha256:[0-9a-f]{64}")
_MEBIBYTE = 2**20
_MAX_OUTPUT_BYTES = 2**20
_MAX_WRITTEN_BYTES = 2 * _MAX_OUTPUT_BYTES
_HELPER = ("docker", "run", "--rm", "--interactive", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
# Parts of the engine's description of a container; its variables may be secrets.
_SHOWN = ("Id", "Image", "Name", "State", "HostConfig", "NetworkSettings")


class DockerValidationProvider:
    """Provider that builds a package's image, and starts it with Docker.

    A container has a read-only file system with a folder for temporary files in memory, no capabilities of root, no new
    privileges, limits on processes, memory and CPU, and no network or the engine's bridge, on which its port is
    published for this machine alone.

    Args:
        build_timeout_s: Seconds that a build may take.
        max_context_bytes: Bytes of the files that a build may copy.
        helper_image: Image with Python for measurements of the network, by its digest.
        base_image: Base image, for a Dockerfile with ``ARG BASE_IMAGE``.
        wheels: Folder of wheels to install from; no index is used then.

    Attributes:
        name: ``docker-local``.
        capabilities: ``IMAGE_BUILD``, ``EXEC``, ``NETWORK_POLICY``.
        supported_network_modes: ``public``, ``no-network``.

    Raises:
        ValueError: An argument is out of range, or the helper's image is not pinned.

    Example:
        >>> sorted(DockerValidationProvider().supported_network_modes)
        ['no-network', 'public']
    """

    name = "docker-local"
    capabilities = frozenset(
        {ProviderCapability.IMAGE_BUILD, ProviderCapability.EXEC, ProviderCapability.NETWORK_POLICY}
    )
    supported_network_modes = frozenset({"public", "no-network"})

    def __init__(
        self,
        *,
        build_timeout_s: float = 600,
        max_context_bytes: int = 2**30,
        helper_image: str = HELPER_IMAGE,
        base_image: str | None = None,
        wheels: Path | None = None,
    ) -> None:
        if not 0 < build_timeout_s < math.inf:
            raise ValueError("build_timeout_s must be positive and finite")
        if max_context_bytes <= 0:
            raise ValueError("max_context_bytes must be positive")
        if _PINNED.fullmatch(helper_image) is None:
            raise ValueError("helper_image must be pinned by digest")
        self.build_timeout_s = build_timeout_s
        self.max_context_bytes = max_context_bytes
        self.helper_image = helper_image
        self.base_image = base_image
        self.wheels = wheels

    def build(self, root: Path, execution: ExecutionDeclaration) -> str:
        """Build a package's image, and return its digest.

        Args:
            root: Folder of the package.
            execution: Its declaration, with Dockerfile and context.

        Raises:
            ConfigurationError: The package has no such file.
            ProviderError: Docker is missing, the context is too large, or the build fails or takes too long.
        """
        context = root / execution.context
        self._check_context(context)
        built = build_image(
            Build(
                folder=root,
                tag=f"{default_tag(load_manifest(root))}-validation",
                context=context,
                dockerfile=root / execution.dockerfile,
                base_image=self.base_image,
                wheels=self.wheels,
                timeout_s=self.build_timeout_s,
            )
        )
        return built.id

    def start(self, spec: LaunchSpec) -> "DockerRunningSubject":
        """Start a container, and wait until its server is healthy.

        Args:
            spec: What is started.

        Raises:
            StartupError: The server ended, or was not healthy in time.
            UnsupportedCapability: The network mode or a GPU can't be had.
            ProviderError: Docker can't be used, or has no such image.
        """
        if spec.network.mode not in self.supported_network_modes:
            raise UnsupportedCapability(f"{self.name} does not enforce {spec.network.mode}")
        if spec.resources.gpus:
            raise UnsupportedCapability(f"{self.name} does not provide GPU isolation")
        started = LocalDockerProvider(
            spec.image_ref,
            resources=Resources(cpus=spec.resources.cpu, memory=spec.resources.memory_mb * _MEBIBYTE),
            network="bridge" if spec.network.mode == "public" else "none",
            read_only=True,
            # The server is published for this machine alone, and graders of other packages know no token.
            env_vars={AUTH_VARIABLE: AUTH_NONE, **spec.env_vars},
            grace_s=1.0,
        )
        _launch(started, spec.startup_timeout_s)
        assert started.container_name is not None
        return DockerRunningSubject(started.container_name, spec, self.helper_image, started)

    def _check_context(self, context: Path) -> None:
        size = sum(file.lstat().st_size for file in context.rglob("*"))
        if size > self.max_context_bytes:
            raise ProviderError(
                f"The build's context {context} has {size} bytes; expected at most {self.max_context_bytes}. "
                "Leave out of the folder what the image does not need, or raise max_context_bytes."
            )


def _launch(started: LocalDockerProvider, timeout_s: float) -> None:
    """Start a container and wait for its server; on failure nothing is left of it."""
    is_ready = False
    try:
        started.start_container()
        try:
            started.wait_for_ready(started.base_url, timeout_s)
        except ServerNotReadyError as error:
            raise StartupError(NOT_READY, error.logs) from error
        except ProviderError as error:
            raise StartupError(str(error)) from error
        is_ready = True
    finally:
        if not is_ready:
            started.shut_down()


class DockerRunningSubject:
    """Running container of a package.

    Args:
        name: Name of the container.
        spec: What was started.
        helper_image: Image with Python for measurements of the network.
        started: Provider that has started the container, and ends it.

    Attributes:
        base_url: Address of the server.

    Example:
        >>> with_docker = DockerValidationProvider().start(spec)  # doctest: +SKIP
        >>> with_docker.exec(["python3", "--version"], timeout_s=10).exit_code  # doctest: +SKIP
        0
    """

    def __init__(self, name: str, spec: LaunchSpec, helper_image: str, started: LocalDockerProvider) -> None:
        self.name = name
        self.base_url = started.base_url
        self._spec = spec
        self._helper_image = helper_image
        self._started = started
        self._log = ""

    def inspect(self) -> dict[str, Any]:
        """Return the engine's description of the container, without its variables.

        Raises:
            ProviderError: The container is gone, or the engine does not answer.
        """
        with closing(connect()) as client, engine_failing(f"Docker does not describe the container {self.name}"):
            details = cast("dict[str, Any]", client.api.inspect_container(self.name))
        return {key: details.get(key) for key in _SHOWN}

    def logs(self, max_bytes: int = MAX_LOG_BYTES) -> str:
        """Return the end of what the server has printed, also after its end.

        Raises:
            ValueError: The number of bytes is out of range.
        """
        check_log_size(max_bytes)
        return (self._started.logs(max_bytes) or self._log).encode()[-max_bytes:].decode(errors="replace")

    def exec(self, argv: Sequence[str], timeout_s: float) -> ExecResult:
        """Run a program in the container.

        Args:
            argv: The program and its arguments; no shell reads them.
            timeout_s: Seconds that it may take.

        Returns:
            Its result, with the first MiB of what it has printed on each stream.

        Raises:
            ProviderError: It takes longer, or prints much more; it may run on until the container is stopped.
        """
        start = time.perf_counter()
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            process = subprocess.Popen(  # noqa: S603  # Docker's command, and a program within the container
                ["docker", "exec", self.name, *argv],  # noqa: S607
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )
            # What prints without an end fills no disk.
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (_MAX_WRITTEN_BYTES, _MAX_WRITTEN_BYTES))
            try:
                exit_code = process.wait(timeout_s)
            except subprocess.TimeoutExpired as error:
                raise ProviderError(f"{argv[0]} did not end within {timeout_s:g} s.") from error
            finally:
                process.kill()
                process.wait()
            if max(os.fstat(each.fileno()).st_size for each in (stdout, stderr)) >= _MAX_WRITTEN_BYTES:
                raise ProviderError(f"{argv[0]} printed more than {_MAX_OUTPUT_BYTES} bytes.")
            return ExecResult(exit_code, _read(stdout), _read(stderr), time.perf_counter() - start)

    def measure_network(self, timeout_s: float = MEASURE_TIMEOUT_S) -> dict[str, Any]:
        """Measure the network that the container reaches, by a program of ours that joins it.

        Args:
            timeout_s: Seconds that each attempt may take, with the start of its container.

        Returns:
            The evidence, as ``NetworkEvidence`` has it.

        Raises:
            ProviderError: It can't be measured, as where there is no such helper image.
        """
        python = ("--entrypoint", "python3", self._helper_image)
        with Sink([*_HELPER, *python]) as sink:
            control = run_probe([*_HELPER, *python], sink.address, timeout_s)
            joined = [*_HELPER, "--network", f"container:{self.name}", *python]
            subject = run_probe(joined, sink.address, timeout_s)
        mode = str(self.inspect()["HostConfig"]["NetworkMode"])
        return network_evidence(self._spec.network.mode, mode, control, subject)

    def stop(self) -> None:
        """Stop and remove the container. May be called twice.

        Raises:
            ProviderError: The engine can't; it gets the request again when this process ends.
        """
        self._log = self._started.logs(MAX_LOG_BYTES) or self._log
        self._started.shut_down()


def _read(stream: Any) -> str:
    stream.seek(0)
    content: bytes = stream.read(_MAX_OUTPUT_BYTES)
    return content.decode(errors="replace")
