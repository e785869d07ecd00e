"""Grader of the network that a subject can reach, by what a provider has measured."""

import time

from pydantic import ValidationError

from openenv.validation.graders import Subject
from openenv.validation.graders.runtime.basic import STARTUP
from openenv.validation.manifest import NetworkPolicy, NormalizedManifest
from openenv.validation.report import CheckResult
from openenv.validation.runtime.contracts import NetworkEvidence, NetworkProbe
from openenv.validation.types import CheckStatus, Level, ProviderCapability

_LOOPBACK = ["lo"]
_REMEDY = "Declare the network that the environment needs under validation.network, and start it with no other."


class NetworkPolicyGrader:
    """Check that a subject reaches the network that its package declares, and no other.

    Attributes:
        check_id: Name of the check.
        level: Level of the check.
        requires_capabilities: Capabilities that the package has to declare.
        requires_provider: Capabilities that the provider has to have.
        depends_on: Checks that have to pass before.

    Example:
        >>> NetworkPolicyGrader().requires_provider
        frozenset({<ProviderCapability.NETWORK_POLICY: 'network_policy'>})
    """

    check_id = "runtime.network_policy"
    level = Level.RUNTIME
    requires_capabilities: frozenset[str] = frozenset()
    requires_provider = frozenset({ProviderCapability.NETWORK_POLICY})
    depends_on: tuple[str, ...] = (STARTUP,)

    def applies_to(self, manifest: NormalizedManifest) -> bool:
        """Return whether the check is for a package, which it is for all."""
        return True

    def run(self, subject: Subject) -> CheckResult:
        """Compare the measured network with the declared one.

        Args:
            subject: The subject, with its network evidence.

        Returns:
            The result: skipped where nothing was measured that counts.
        """
        start = time.perf_counter()
        status, lines, probes = _graded(subject)
        return CheckResult(
            check_id=self.check_id,
            status=status,
            measured={"probes": probes},
            evidence=lines,
            remediation=_REMEDY if status is CheckStatus.FAIL else None,
            duration_s=time.perf_counter() - start,
        )


def _graded(subject: Subject) -> tuple[CheckStatus, list[str], int]:
    """Return the status, its reasons, and the number of probes that count."""
    declared = subject.manifest.network
    if declared.mode == "allowlist":
        return CheckStatus.SKIP, ["allowlist network grading is not implemented"], 0
    if subject.network_evidence_json is None:
        return CheckStatus.SKIP, ["network evidence is unavailable"], 0
    try:
        evidence = NetworkEvidence.model_validate_json(subject.network_evidence_json)
    except ValidationError:
        return CheckStatus.FAIL, ["malformed network evidence"], 0
    counted = [probe for probe in evidence.probes if _counts(probe)]
    problems = _problems(evidence, declared, counted)
    if problems:
        return CheckStatus.FAIL, problems, len(counted)
    if not any(probe.kind == "tcp" for probe in counted):
        return CheckStatus.SKIP, ["no tcp probe has reached its sink from the unrestricted network"], len(counted)
    return CheckStatus.PASS, [f"measured network is {declared.mode}"], len(counted)


def _counts(probe: NetworkProbe) -> bool:
    return probe.control.result == "reachable" and probe.subject.result != "inconclusive"


def _problems(evidence: NetworkEvidence, declared: NetworkPolicy, counted: list[NetworkProbe]) -> list[str]:
    if evidence.requested_mode != declared.mode:
        return [f"evidence measured {evidence.requested_mode}, declared {declared.mode}"]
    expected = "denied" if declared.mode == "no-network" else "reachable"
    problems = [f"{each.kind} probe was {each.subject.result}" for each in counted if each.subject.result != expected]
    if declared.mode != "no-network":
        return problems
    namespace = evidence.namespace
    if evidence.subject_network_mode != "none":
        problems.append(f"network mode is {evidence.subject_network_mode}, expected none")
    if namespace.interfaces != _LOOPBACK:
        problems.append(f"interfaces are {', '.join(namespace.interfaces) or 'none'}, expected lo")
    if namespace.default_route:
        problems.append("there is a default route")
    if namespace.ipv6_non_loopback:
        problems.append(f"{namespace.ipv6_non_loopback} IPv6 addresses are not of the loopback interface")
    return problems
