"""The checks of the semantic level."""

from pathlib import Path

from openenv.validation.findings import ADVICE
from openenv.validation.policy import OWN_POLICY, load_policy
from openenv.validation.semantic.checks import AUDITS, SEMANTIC_CHECKS
from openenv.validation.types import Lane, Level, Severity

PAGE = Path(__file__).parents[3] / "docs" / "museum.md"


def test_each_check_has_its_numbers_in_public_audits_and_its_row_in_the_docs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert set(AUDITS) == {check.id for check in SEMANTIC_CHECKS}
    for check, (class_, items) in AUDITS.items():
        assert any(
            line.startswith(f"| `{check}`") and line.endswith(f"| {class_} | {items} |") for line in page.splitlines()
        )


def test_the_policy_knows_each_check_and_its_warnings() -> None:
    entries = load_policy(OWN_POLICY).entries_for_lane(Lane.LOCAL)
    for check in SEMANTIC_CHECKS:
        assert (entries[check.id].level, entries[check.id].severity) == (Level.SEMANTIC, Severity.FAIL)
        assert entries[f"{check.id}{ADVICE}"].severity is Severity.WARN
