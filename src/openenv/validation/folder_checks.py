"""Report of all checks of an environment's folder."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from openenv.auto.manifest import Manifest
from openenv.validation.code_checks import CODE_CHECKS
from openenv.validation.file_checks import FILE_CHECKS
from openenv.validation.findings import Check, Finding, Status, SubjectT
from openenv.validation.package_checks import PACKAGE_CHECKS
from openenv.validation.source import read_source

REPORT_SCHEMA_VERSION = 1
LEVEL = "static"
CHECKS = (*FILE_CHECKS, *PACKAGE_CHECKS, *CODE_CHECKS)
_SEVERITY: Sequence[Status] = ("pass", "warn", "fail")


@dataclass(frozen=True)
class CheckResult:
    """Result of a check.

    Attributes:
        check_id: The check's name.
        status: ``pass``, ``warn`` or ``fail``.
        measured: Subject of the check.
        evidence: Faults, one entry for each finding.
        remediation: Remedies, each once.
        duration_s: Seconds that the check took.
    """

    check_id: str
    status: Status
    measured: str
    evidence: list[str]
    remediation: list[str]
    duration_s: float


@dataclass(frozen=True)
class Report:
    """Results of all checks of an environment's folder.

    Attributes:
        target: The folder, or ``PREFIX:ID``.
        source_digest: SHA-256 over the checked files.
        manifest: The manifest's keys; empty if it can't be read.
        results: One entry for each check.
        levels: Kinds of checks: ``static`` runs nothing of the environment, ``runtime`` does.
    """

    target: str
    source_digest: str
    manifest: Mapping[str, Any]
    results: list[CheckResult]
    levels: tuple[str, ...] = (LEVEL,)

    @property
    def verdict(self) -> Status:
        """The worst status of any check."""
        return _worst([result.status for result in self.results])

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "report_schema_version": REPORT_SCHEMA_VERSION,
            "target": self.target,
            "source_digest": self.source_digest,
            "manifest": dict(self.manifest),
            "levels_run": list(self.levels),
            "results": [asdict(result) for result in self.results],
            "verdict": self.verdict,
        }


def validate_folder(folder: Path) -> Report:
    """Check an environment's folder. None of its code is imported or run.

    Args:
        folder: The folder that holds ``openenv.yaml``.

    Returns:
        The result of each check.

    Raises:
        EnvironmentNotFoundError: There is no such folder, or it holds no ``openenv.yaml``.
    """
    source = read_source(folder)
    manifest = source.manifest.model_dump(mode="json") if isinstance(source.manifest, Manifest) else {}
    results = [run_check(check, source) for check in CHECKS]
    return Report(str(source.folder), source.digest, manifest, results)


def run_check(check: Check[SubjectT], subject: SubjectT) -> CheckResult:
    """Run one check."""
    start = time.perf_counter()
    findings: list[Finding] = list(check.find(subject))
    duration_s = round(time.perf_counter() - start, 6)
    return CheckResult(
        check_id=check.id,
        status=_worst([finding.status for finding in findings]),
        measured=check.measures,
        evidence=[finding.text for finding in findings],
        remediation=list(dict.fromkeys(finding.remedy for finding in findings)),
        duration_s=duration_s,
    )


def _worst(statuses: list[Status]) -> Status:
    return max(statuses, key=_SEVERITY.index, default="pass")
