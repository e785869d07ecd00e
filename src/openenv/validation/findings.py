"""Checks and their findings."""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from openenv.validation.report import CheckResult, skipped
from openenv.validation.types import CheckStatus, Severity

SubjectT = TypeVar("SubjectT")
LONGEST_TEXT = 200
"""Characters of a value in evidence."""
ADVICE = "_advice"
"""End of the id of a check's warnings."""


@dataclass(frozen=True)
class Finding:
    """Fault that a check found.

    Attributes:
        severity: ``FAIL`` if the environment can't work or be published so, else ``WARN``.
        text: The fault, and its location.
        remedy: Remedy for it.
    """

    severity: Severity
    text: str
    remedy: str


@dataclass(frozen=True)
class Measurement:
    """Values that a check measured, whether or not it found a fault.

    Attributes:
        values: The values by name, for ``measured`` of its result.
        text: A sentence for its evidence, which a check that passes has too; empty for none.
    """

    values: Mapping[str, Any]
    text: str = ""


class LeftOutError(Exception):
    """A check can't be made; the message is the reason."""


@dataclass(frozen=True)
class Check(Generic[SubjectT]):
    """Check of an environment: of its folder or, where that is another library's, of itself.

    A policy gives each id one severity, so a check has two: warnings have an id of their own.

    Attributes:
        id: Its name in the report.
        measures: Its subject, for people.
        find: Yields the faults, and what it measured. It raises `LeftOutError` where the check can't be made.
        warns_as: Id of its warnings, whose result is always in the report; its own id if it only warns. If it is empty,
            warnings have the check's id with ``_advice`` behind it, and a result where there are any.
    """

    id: str
    measures: str
    find: Callable[[SubjectT], Iterable[Finding | Measurement]]
    warns_as: str = ""


def fail(text: str, remedy: str) -> Finding:
    """Make a finding that fails the check."""
    return Finding(Severity.FAIL, text, remedy)


def warn(text: str, remedy: str) -> Finding:
    """Make a finding that does not fail the check."""
    return Finding(Severity.WARN, text, remedy)


def run_check(check: Check[SubjectT], subject: SubjectT) -> list[CheckResult]:
    """Run a check, and return its result, and that of its warnings."""
    start = time.perf_counter()
    try:
        found = list(check.find(subject))
    except LeftOutError as error:
        left_out = skipped(check.id, str(error))
        return [left_out.model_copy(update={"measured": {"subject": check.measures}})]
    return results_of(check, found, round(time.perf_counter() - start, 6))


def results_of(check: Check[SubjectT], found: Sequence[Finding | Measurement], duration_s: float) -> list[CheckResult]:
    """Return the results of a check that has found something or nothing; measured values are in the first."""
    findings = [each for each in found if isinstance(each, Finding)]
    measured = [each for each in found if isinstance(each, Measurement)]
    if check.warns_as == check.id:
        return [_result(check.id, check.measures, findings, duration_s, measured)]
    faults = [finding for finding in findings if finding.severity is Severity.FAIL]
    warnings = [finding for finding in findings if finding.severity is not Severity.FAIL]
    results = [_result(check.id, check.measures, faults, duration_s, measured)]
    if warnings or check.warns_as:
        results.append(_result(check.warns_as or f"{check.id}{ADVICE}", check.measures, warnings, 0.0))
    return results


def _result(
    check_id: str,
    subject: str,
    findings: Sequence[Finding],
    duration_s: float,
    measured: Sequence[Measurement] = (),
) -> CheckResult:
    values = {name: value for each in measured for name, value in each.values.items()}
    return CheckResult(
        check_id=check_id,
        status=CheckStatus.FAIL if findings else CheckStatus.PASS,
        measured={"subject": subject, "findings": len(findings), **values},
        evidence=[*(finding.text for finding in findings), *(each.text for each in measured if each.text)],
        remediation="\n".join(dict.fromkeys(finding.remedy for finding in findings)) or None,
        duration_s=duration_s,
    )


def shortened(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return the beginning of a text, so long at most.

    Example:
        >>> shortened("a long story", 10)
        'a long ...'
    """
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def shown(value: Any) -> str:
    """Return a value as short JSON.

    Example:
        >>> shown({"word": "mouse"})
        '{"word": "mouse"}'
    """
    return shortened(json.dumps(value, ensure_ascii=False, default=str))
