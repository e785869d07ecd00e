"""The checks of the semantic level, in their order, and a run of them."""

from collections.abc import Iterator

from openenv.validation.findings import run_check
from openenv.validation.report import CheckResult
from openenv.validation.semantic.floor import FLOOR_CHECKS
from openenv.validation.semantic.graded import GradedEnvironment
from openenv.validation.semantic.isolation import ISOLATION_CHECK
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
    ISOLATION_CHECK,
    *PROBE_CHECKS,
    FORM_CHECK,
)


# Numbers of each check in the two public audits of benchmarks: BenchJack's classes of vulnerabilities, and the items of
# the Agentic Benchmark Checklist (outcome validity I, challenge validity II, reporting III).
AUDITS: dict[str, tuple[str, str]] = {
    "semantic.oracle_max": ("V6", "II.6, II.7, II.8"),
    "semantic.oracle_variants": ("V5", "I.a.1, I.a.2, I.g.1"),
    "semantic.floor_gap": ("V6", "I.g.2, I.g.3, I.h.2, III.13"),
    "semantic.canary_floor": ("V6", "I.d.1, II.9"),
    "semantic.no_solution_leakage": ("V2", "II.5"),
    "semantic.verifier_determinism": ("V6", "I.c.1, I.f.3"),
    "semantic.replayability": ("V6", "I.f.3, II.4"),
    "semantic.verifier_portability": ("V8", "II.2"),
    "semantic.false_zero": ("V6", "II.3"),
    "semantic.reward_parts": ("V6", "I.d.2, I.I.1"),
    "semantic.isolated_grading": ("V1", "II.5, II.9"),
    "semantic.probe_nothing": ("V6", "I.e.1, II.9"),
    "semantic.probe_echo": ("V5", "I.b.2, II.9"),
    "semantic.probe_list_all": ("V5", "I.b.1, I.b.2"),
    "semantic.probe_nonsense": ("V6", "I.d.1, I.I.1"),
    "semantic.probe_near_miss": ("V5", "I.a.1, I.b.3"),
    "semantic.probe_judge": ("V4", "I.c.2"),
    "semantic.probe_object": ("V3", "I.e.1, II.9"),
    "semantic.probe_forged": ("V7", "II.9"),
    "semantic.probe_tamper": ("V1", "II.5, II.9"),
    "semantic.probe_hidden": ("V2", "II.5"),
    "semantic.probe_early": ("V6", "I.g.2"),
    "semantic.probe_repeat": ("V6", "I.I.1"),
    "semantic.verdict_form": ("V6", "II.3"),
}


def each_semantic_results(graded: GradedEnvironment) -> Iterator[list[CheckResult]]:
    """Iterate over the results of each of the semantic checks, as soon as they are known."""
    for check in SEMANTIC_CHECKS:
        before = graded.played
        results = run_check(check, graded)
        results[0].measured["episodes"] = graded.played - before
        yield results
