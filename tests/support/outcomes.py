"""Outcomes of checks: a check's result together with that of its warnings."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from openenv.validation.findings import ADVICE
from openenv.validation.policy import OWN_POLICY, apply_policy, load_policy
from openenv.validation.report import CheckResult
from openenv.validation.types import Lane


@dataclass
class Outcome:
    """Outcome of a check.

    Attributes:
        status: ``pass``, ``warn`` or ``fail``.
        evidence: Its faults.
        remediation: Their remedies.
    """

    status: str
    evidence: list[str] = field(default_factory=list)
    remediation: list[str] = field(default_factory=list)


def outcomes(results: Iterable[CheckResult]) -> dict[str, Outcome]:
    """Return the outcomes of checks by their ids."""
    policy = load_policy(OWN_POLICY)
    found: dict[str, list[CheckResult]] = {}
    for result in results:
        found.setdefault(result.check_id.removesuffix(ADVICE), []).append(result)
    return {
        check_id: Outcome(
            apply_policy(each, policy, Lane.LOCAL).value,
            [text for result in each for text in result.evidence],
            [remedy for result in each for remedy in (result.remediation or "").splitlines()],
        )
        for check_id, each in found.items()
    }
