"""The checks of the semantic level, in their order, and a run of them."""

from collections.abc import Iterator

from openenv.validation.findings import run_check
from openenv.validation.report import CheckResult
from openenv.validation.semantic.floor import FLOOR_CHECKS
from openenv.validation.semantic.graded import GradedEnvironment
from openenv.validation.semantic.leakage import LEAKAGE_CHECKS
from openenv.validation.semantic.oracle import ORACLE_CHECKS
from openenv.validation.semantic.parts import PARTS_CHECKS
from openenv.validation.semantic.probes import PROBE_CHECKS
from openenv.validation.semantic.verifier import FORM_CHECK, VERIFIER_CHECKS

# Verdicts and leaks first, since exploits are sent to the same server, and may change it.
SEMANTIC_CHECKS = (
    *ORACLE_CHECKS,
    *FLOOR_CHECKS,
    *LEAKAGE_CHECKS,
    *VERIFIER_CHECKS,
    *PARTS_CHECKS,
    *PROBE_CHECKS,
    FORM_CHECK,
)


def each_semantic_results(graded: GradedEnvironment) -> Iterator[list[CheckResult]]:
    """Iterate over the results of each of the semantic checks, as soon as they are known."""
    for check in SEMANTIC_CHECKS:
        yield run_check(check, graded)
