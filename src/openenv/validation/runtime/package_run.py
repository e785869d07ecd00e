"""Run of a package for its checks: it is built and started, its planned episode is played, and it is ended."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable
from uuid import uuid4

from openenv.core.exceptions import OpenEnvError
from openenv.validation.manifest import NormalizedManifest, NormalizedManifestV2
from openenv.validation.providers import (
    ProviderError,
    RunningSubject,
    StartupError,
    UnsupportedCapability,
    ValidationProvider,
)
from openenv.validation.report import CheckResult
from openenv.validation.runtime.collector import RuntimeCollectionInterrupted, collect_runtime_evidence
from openenv.validation.runtime.contracts import (
    LaunchSpec,
    RuntimeEvidence,
    RuntimePlan,
    RuntimePlanError,
    load_runtime_plan,
)
from openenv.validation.types import CheckStatus, ProviderCapability

STARTUP = "runtime.startup"
STARTED = "subject built and reached its control endpoint"
_LOG_LINES = 10


@runtime_checkable
class MeasuredSubject(Protocol):
    """Running subject whose network can be measured."""

    def measure_network(self) -> Mapping[str, Any]:
        """Return the evidence, as ``NetworkEvidence`` has it."""
        ...


class PackageRun:
    """Run of a package: a context manager that ends it, and gives ``runtime.startup`` its result.

    A fault of the package, of the provider, or Ctrl-C ends the run, and raises nothing.

    Args:
        root: The package's folder.
        manifest: Its manifest.
        get_provider: Makes the provider; ``None`` if the package is not to be built.

    Attributes:
        provider: The provider, once there is one.
        plan: The planned episode, once it is read.
        image_ref: The image, once it is built.
        running: The server, while it runs.
        evidence: What was exchanged with it.
        network_evidence_json: What its network reached.
        is_built: Whether a build was tried.
    """

    def __init__(
        self, root: Path, manifest: NormalizedManifest, get_provider: Callable[[], ValidationProvider] | None
    ) -> None:
        self.provider: ValidationProvider | None = None
        self.plan: RuntimePlan | None = None
        self.image_ref: str | None = None
        self.running: RunningSubject | None = None
        self.evidence: RuntimeEvidence | None = None
        self.network_evidence_json: str | None = None
        self.is_built = False
        self._root, self._manifest, self._get_provider = root, manifest, get_provider
        self._status, self._reasons = CheckStatus.PASS, [STARTED]
        # Both set by ``__exit__``.
        self._is_ended = True
        self._duration_s = 0.0

    def __enter__(self) -> Self:
        start = time.perf_counter()
        try:
            self._start()
        except RuntimeCollectionInterrupted as error:
            self.evidence = error.evidence
            self.end_with(CheckStatus.ERROR, "validation interrupted")
        except KeyboardInterrupt:
            self.end_with(CheckStatus.ERROR, "validation interrupted")
        except StartupError as error:
            self.end_with(CheckStatus.FAIL, *_first_and_last_lines(str(error)))
        except UnsupportedCapability as error:
            self.end_with(CheckStatus.SKIP, str(error))
        except RuntimePlanError as error:
            self.end_with(CheckStatus.FAIL, str(error))
        except (ProviderError, OSError) as error:
            lines = _first_and_last_lines(f"provider failed ({type(error).__name__}): {error}")
            self.end_with(CheckStatus.ERROR, *lines)
        except OpenEnvError as error:
            self.end_with(CheckStatus.FAIL, str(error))
        self._duration_s = time.perf_counter() - start
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is KeyboardInterrupt:
            self.end_with(CheckStatus.ERROR, "validation interrupted")
        if self.running is not None:
            self._is_ended = False
            try:
                self.running.stop()
                self._is_ended = True
            except (OpenEnvError, OSError, KeyboardInterrupt) as failure:
                self.end_with(CheckStatus.ERROR, f"subject teardown failed: {failure}")
            self.running = None
        return kind is KeyboardInterrupt

    @property
    def has_started(self) -> bool:
        """Return whether the package runs, or has run, without a fault."""
        return self._status is CheckStatus.PASS

    @property
    def cleanup(self) -> dict[str, Any]:
        """Text about the end of the run."""
        return {"required": self.is_built, "completed": self._is_ended}

    def end_with(self, status: CheckStatus, *reasons: str) -> None:
        """Set the status of ``runtime.startup``; an error stays an error, and later reasons are added to it."""
        if self._status is CheckStatus.ERROR:
            self._reasons += reasons
        else:
            self._status, self._reasons = status, list(reasons)

    def result(self) -> CheckResult:
        """Return the result of ``runtime.startup``."""
        return CheckResult(
            check_id=STARTUP, status=self._status, evidence=self._reasons, duration_s=round(self._duration_s, 6)
        )

    def _start(self) -> None:
        manifest = self._manifest
        if self._get_provider is None:
            return self.end_with(CheckStatus.SKIP, "--skip-build: build-dependent runtime checks skipped")
        if not isinstance(manifest, NormalizedManifestV2):
            return self.end_with(CheckStatus.SKIP, "missing validation.execution declaration and runtime plan")
        if manifest.execution.requires_credentials:
            return self.end_with(CheckStatus.SKIP, "credential_delivery is deferred for this release")
        self.plan = load_runtime_plan(self._root, manifest.execution)
        self.provider = provider = self._get_provider()
        if manifest.network.mode not in provider.supported_network_modes:
            return self.end_with(CheckStatus.SKIP, f"provider cannot enforce network mode {manifest.network.mode}")
        if manifest.resources.gpus and ProviderCapability.GPU not in provider.capabilities:
            return self.end_with(CheckStatus.SKIP, "missing provider capability: gpu")
        self.is_built = True
        self.image_ref = provider.build(self._root, manifest.execution)
        spec = LaunchSpec(
            image_ref=self.image_ref,
            resources=manifest.resources,
            network=manifest.network,
            run_id=f"validate-{uuid4().hex[:12]}",
        )
        self.running = provider.start(spec)
        self.evidence = collect_runtime_evidence(
            self.running.base_url, self.plan, episode_timeout_s=manifest.resources.episode_timeout_s
        )
        if ProviderCapability.NETWORK_POLICY in provider.capabilities:
            self._measure_network(self.running)
        return None

    def _measure_network(self, running: RunningSubject) -> None:
        """Measure the network; where that fails, its grader finds no evidence."""
        if isinstance(running, MeasuredSubject):
            try:
                self.network_evidence_json = json.dumps(dict(running.measure_network()))
            except ProviderError:
                self.network_evidence_json = None


def _first_and_last_lines(text: str) -> list[str]:
    """Shorten an error with a log in it to its sentence and the end of the log, which mostly has the reason."""
    first, *log = text.splitlines() or [""]
    return [first, *log[-_LOG_LINES:]]
