"""Grader of a package's declarations."""

import time

from openenv.validation.graders import Subject
from openenv.validation.manifest import NormalizedManifest
from openenv.validation.policy import DeclarationBounds
from openenv.validation.report import CheckResult
from openenv.validation.types import CheckStatus, Level, ProviderCapability

BOUNDS_REMEDIATION = "Set these values in openenv.yaml within the bounds of the policy."


class StaticManifestGrader:
    """Grader of ``static.manifest``: declarations are within a policy's bounds.

    Args:
        bounds: The bounds.

    Example:
        >>> from openenv.validation.policy import load_policy
        >>> StaticManifestGrader(load_policy().bounds).check_id
        'static.manifest'
    """

    check_id = "static.manifest"
    level = Level.STATIC
    requires_capabilities: frozenset[str] = frozenset()
    requires_provider: frozenset[ProviderCapability] = frozenset()
    depends_on: tuple[str, ...] = ()

    def __init__(self, bounds: DeclarationBounds) -> None:
        self._bounds = bounds

    def applies_to(self, manifest: NormalizedManifest) -> bool:
        """Return true: every package has declarations."""
        return True

    def run(self, subject: Subject) -> CheckResult:
        """Compare the manifest's numbers with the bounds."""
        start = time.perf_counter()
        faults = bound_faults(subject.manifest, self._bounds)
        reward = subject.manifest.reward
        return CheckResult(
            check_id=self.check_id,
            status=CheckStatus.FAIL if faults else CheckStatus.PASS,
            measured={
                "oracle_tolerance": reward.oracle_tolerance,
                "floor_margin": reward.floor_margin,
                "variance_tolerance": reward.variance_tolerance,
                "episode_timeout_s": subject.manifest.resources.episode_timeout_s,
                "bounds": self._bounds.model_dump(),
            },
            evidence=faults or ["the declarations are valid and within the bounds of the policy"],
            remediation=BOUNDS_REMEDIATION if faults else None,
            duration_s=time.perf_counter() - start,
        )


def bound_faults(manifest: NormalizedManifest, bounds: DeclarationBounds) -> list[str]:
    """Return a sentence for each declaration that is not within a policy's bounds."""
    reward, timeout_s = manifest.reward, manifest.resources.episode_timeout_s
    faults = [
        _above("oracle_tolerance", reward.oracle_tolerance, bounds.max_oracle_tolerance),
        _below("floor_margin", reward.floor_margin, bounds.min_floor_margin),
        _above("variance_tolerance", reward.variance_tolerance, bounds.max_variance_tolerance),
        _above("episode_timeout_s", timeout_s, bounds.max_episode_timeout_s),
    ]
    return [fault for fault in faults if fault is not None]


def _above(name: str, value: float | None, bound: float) -> str | None:
    return None if value is None or value <= bound else f"declared {name} {value} exceeds the policy maximum {bound}"


def _below(name: str, value: float, bound: float) -> str | None:
    return None if value >= bound else f"declared {name} {value} is below the policy minimum {bound}"
