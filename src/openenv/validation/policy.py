"""Severity policies: which checks belong to a validation, and how much the failure of each weighs."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from openenv.core.documents import parse_json
from openenv.validation.manifest import NormalizedManifest
from openenv.validation.report import CheckResult, ValidationReport, ValidationReportV2
from openenv.validation.types import CheckStatus, Lane, Level, Severity, SignatureKind, Verdict

OWN_POLICY = "openenv-v1"
"""Policy of the checks of this package."""


class PolicyError(Exception):
    """Policy that is not there, is no policy, or does not know a check.

    Example:
        >>> str(PolicyError("no severity policy for version 'v9'"))
        "no severity policy for version 'v9'"
    """


class PolicyEntry(BaseModel):
    """Entry of a policy for a check.

    Attributes:
        check_id: The check's name.
        level: Its level.
        lane: The lane that it is meant for.
        severity: Weight of its failure.

    Example:
        >>> PolicyEntry(check_id="static.manifest", level=1, lane="local", severity="fail").level.name
        'STATIC'
    """

    model_config = ConfigDict(extra="forbid")

    check_id: str
    level: Level
    lane: Lane
    severity: Severity


class DeclarationBounds(BaseModel):
    """Bounds of a manifest's declarations.

    Attributes:
        max_oracle_tolerance: Highest ``reward.oracle_tolerance``.
        min_floor_margin: Lowest ``reward.floor_margin``.
        max_variance_tolerance: Highest ``reward.variance_tolerance``.
        max_episode_timeout_s: Highest ``resources.episode_timeout_s``.

    Example:
        >>> load_policy().bounds.max_episode_timeout_s
        3600.0
    """

    model_config = ConfigDict(extra="forbid")

    max_oracle_tolerance: float
    min_floor_margin: float
    max_variance_tolerance: float
    max_episode_timeout_s: float


class SeverityPolicy(BaseModel):
    """Policy of a validation.

    Attributes:
        policy_version: Its name.
        entries: One entry for each check.
        bounds: Bounds of declarations.

    Example:
        >>> len(load_policy("v2").entries)
        46
    """

    model_config = ConfigDict(extra="forbid")

    policy_version: str
    entries: list[PolicyEntry]
    bounds: DeclarationBounds

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        if len({entry.check_id for entry in self.entries}) != len(self.entries):
            raise ValueError("duplicate check ids in policy")
        return self

    def entries_for_lane(self, lane: Lane) -> dict[str, PolicyEntry]:
        """Return the entries of a lane by their checks' names; the Hub makes the local checks too."""
        return {entry.check_id: entry for entry in self.entries if lane is Lane.HUB or entry.lane is Lane.LOCAL}


def load_policy(version: str = "v1") -> SeverityPolicy:
    """Read a policy that is part of OpenEnv.

    Args:
        version: ``v1``, ``v2``, or ``openenv-v1``, which has the checks of this package.

    Raises:
        PolicyError: There is no such policy.

    Example:
        >>> load_policy("v2").policy_version
        'v2'
    """
    file = files("openenv.validation") / "policies" / f"severity-{version}.json"
    try:
        content = parse_json(file.read_bytes())
    except (OSError, ValueError) as error:  # a name with a slash or a null byte too
        raise PolicyError(f"no severity policy for version {version!r}") from error
    try:
        return SeverityPolicy.model_validate(content)
    except ValidationError as error:
        raise PolicyError(f"severity policy {version!r} is not valid: {error}") from error


def apply_policy(results: Sequence[CheckResult], policy: SeverityPolicy, lane: Lane) -> Verdict:
    """Return the verdict over results.

    Args:
        results: Results of checks.
        policy: The policy, which must have an entry for each.
        lane: The lane in which the checks were made.

    Raises:
        PolicyError: A check is not in the policy, or not in this lane.

    Example:
        >>> result = CheckResult(check_id="static.layout", status="fail", duration_s=0.0)
        >>> apply_policy([result], load_policy("v1"), Lane.LOCAL).name
        'WARN'
    """
    entries = policy.entries_for_lane(lane)
    for result in results:
        if result.check_id not in entries:
            raise PolicyError(
                f"check id {result.check_id!r} is unknown to policy {policy.policy_version!r} in lane {lane.value!r}"
            )
    statuses = {result.status for result in results}
    if CheckStatus.ERROR in statuses or any(_fails(result, entries) for result in results):
        return Verdict.FAIL
    return Verdict.WARN if statuses & {CheckStatus.FAIL, CheckStatus.SKIP} else Verdict.PASS


def failing(results: Sequence[CheckResult], policy: SeverityPolicy) -> list[CheckResult]:
    """Return the results that fail a package on an author's machine.

    Args:
        results: Results of checks.
        policy: The policy, which must have an entry for each.

    Example:
        >>> failing([CheckResult(check_id="static.layout", status="fail", duration_s=0.0)], load_policy())
        []
    """
    entries = policy.entries_for_lane(Lane.LOCAL)
    return [each for each in results if each.status is CheckStatus.ERROR or _fails(each, entries)]


def _fails(result: CheckResult, entries: Mapping[str, PolicyEntry]) -> bool:
    return result.status is CheckStatus.FAIL and entries[result.check_id].severity is Severity.FAIL


def make_report(
    version: Literal["1", "2"],
    *,
    target: str,
    source_digest: str,
    signature: SignatureKind | None,
    manifest: NormalizedManifest | None,
    policy: SeverityPolicy,
    levels_run: list[Level],
    results: list[CheckResult],
) -> ValidationReport | ValidationReportV2:
    """Make the report of results, with the verdict of a policy.

    Raises:
        PolicyError: The policy does not know a check.
    """
    content: dict[str, Any] = {
        "report_schema_version": version,
        "target": target,
        "source_digest": source_digest,
        "signature": signature,
        "manifest": manifest,
        "policy_version": policy.policy_version,
        "lane": Lane.LOCAL,
        "levels_run": levels_run,
        "results": results,
        "verdict": apply_policy(results, policy, Lane.LOCAL),
    }
    return ValidationReport(**content) if version == "1" else ValidationReportV2(**content)
