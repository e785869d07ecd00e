"""Grader of a package's declarations."""

import time
from collections.abc import Iterator

from openenv.validation.graders import Subject
from openenv.validation.manifest import NormalizedManifest
from openenv.validation.policy import DeclarationBounds
from openenv.validation.report import CheckResult
from openenv.validation.types import CheckStatus, Level, ProviderCapability


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
        faults = list(self._faults(subject.manifest))
        return CheckResult(
            check_id=self.check_id,
            status=CheckStatus.FAIL if faults else CheckStatus.PASS,
            measured={"bound_violations": len(faults)},
            evidence=faults,
            remediation="Set the values within the bounds of the policy." if faults else None,
            duration_s=time.perf_counter() - start,
        )

    def _faults(self, manifest: NormalizedManifest) -> Iterator[str]:
        reward, bounds = manifest.reward, self._bounds
        if reward.oracle_tolerance > bounds.max_oracle_tolerance:
            yield f"reward.oracle_tolerance is {reward.oracle_tolerance}, above {bounds.max_oracle_tolerance}"
        if reward.floor_margin < bounds.min_floor_margin:
            yield f"reward.floor_margin is {reward.floor_margin}, below {bounds.min_floor_margin}"
        variance = reward.variance_tolerance
        if variance is not None and variance > bounds.max_variance_tolerance:
            yield f"reward.variance_tolerance is {variance}, above {bounds.max_variance_tolerance}"
        timeout_s = manifest.resources.episode_timeout_s
        if timeout_s > bounds.max_episode_timeout_s:
            yield f"resources.episode_timeout_s is {timeout_s}, above {bounds.max_episode_timeout_s}"
