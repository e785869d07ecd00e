"""Report of a validation: the result of each check, and the verdict over them."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from openenv.validation.manifest import NormalizedManifest, NormalizedManifestV2
from openenv.validation.types import CheckStatus, Lane, Level, SignatureKind, Verdict


class CheckResult(BaseModel):
    """Result of a check.

    Attributes:
        check_id: The check's name: its level and its subject.
        status: Whether the check passed, failed, was left out, or had an error.
        measured: Measured values.
        evidence: Faults, or the reason why the check was left out.
        remediation: Remedies, one a line.
        duration_s: Seconds that the check took.

    Example:
        >>> CheckResult(check_id="static.manifest", status="pass", duration_s=0.0).evidence
        []
    """

    model_config = ConfigDict(extra="forbid")

    check_id: str = Field(pattern=r"^[a-z_]+\.[a-z_]+$")
    status: CheckStatus
    measured: dict[str, Any] = Field(default_factory=dict)
    evidence: list[str] = Field(default_factory=list)
    remediation: str | None = None
    duration_s: float = Field(ge=0)


class ValidationReport(BaseModel):
    """Results of all checks of a target.

    Attributes:
        report_schema_version: ``1``.
        target: The target.
        source_digest: SHA-256 over the package's files; empty for a target without a folder.
        signature: Kind of the package; ``None`` for a target without a folder.
        manifest: Its normalized manifest, if it has one that is valid.
        policy_version: The severity policy.
        lane: The lane whose checks were to be made.
        levels_run: Levels of the checks that were made.
        results: One entry for each check.
        verdict: The verdict.

    Example:
        >>> ValidationReport.model_fields["verdict"].annotation.__name__
        'Verdict'
    """

    model_config = ConfigDict(extra="forbid")

    report_schema_version: Literal["1"]
    target: str
    source_digest: str
    signature: SignatureKind | None
    manifest: NormalizedManifest | None
    policy_version: str
    lane: Lane
    levels_run: list[Level]
    results: list[CheckResult]
    verdict: Verdict


class ValidationReportV2(ValidationReport):
    """Report of a validation that was to run the environment.

    Attributes:
        report_schema_version: ``2``.
        manifest: Its normalized manifest, of either version.

    Example:
        >>> ValidationReportV2.__base__.__name__
        'ValidationReport'
    """

    report_schema_version: Literal["2"]  # type: ignore[assignment]  # as published: a subclass with another number
    manifest: NormalizedManifestV2 | NormalizedManifest | None


def write_report(report: ValidationReport, path: Path | None = None) -> str:
    """Write a report as JSON.

    Args:
        report: The report.
        path: The file; none is written if ``None``.

    Returns:
        The JSON text.

    Example:
        >>> from openenv.validation.types import Lane, Verdict
        >>> report = ValidationReport(
        ...     report_schema_version="1", target="catch", source_digest="", signature=None, manifest=None,
        ...     policy_version="v1", lane=Lane.LOCAL, levels_run=[], results=[], verdict=Verdict.PASS)
        >>> '"verdict": "pass"' in write_report(report)
        True
    """
    text = report.model_dump_json(indent=2)
    if path is not None:
        path.write_text(f"{text}\n", encoding="utf-8")
    return text


def skipped(check_id: str, reason: str) -> CheckResult:
    """Return the result of a check that was left out, with the reason."""
    return CheckResult(check_id=check_id, status=CheckStatus.SKIP, evidence=[reason], duration_s=0.0)
