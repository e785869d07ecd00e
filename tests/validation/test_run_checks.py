"""Checks that run an environment: each fault is found by its check, and what is sound passes."""

from pathlib import Path

import pytest
from tests.support.broken_environments import NOTED, WHEN_RUN, Broken
from tests.support.imported_modules import forget_modules_of
from tests.support.outcomes import Outcome, outcomes

from openenv.auto.discovery import find_environment
from openenv.validation.run_checks import run_checks
from openenv.validation.trials import RunLimits

# A step that never returns costs so much; a machine with a load of 10 answers in less.
HANGING = RunLimits(answer_s=3.0)
# A machine under load plays 2,000 steps in it.
UNHURRIED = RunLimits(play_s=600.0)


def results(folder: Path, limits: RunLimits | None = None) -> dict[str, Outcome]:
    try:
        return outcomes(run_checks(find_environment(folder), limits))
    finally:
        forget_modules_of(folder)


@pytest.mark.parametrize("broken", WHEN_RUN, ids=lambda broken: broken.name)
def test_each_fault_is_found(tmp_path: Path, broken: Broken) -> None:
    limits = HANGING if "never returns" in broken.name else UNHURRIED
    found = results(broken.write(tmp_path), limits)[broken.check]
    assert found.status == broken.status, found
    assert any(broken.evidence in text for text in found.evidence), found.evidence
    assert found.remediation


@pytest.mark.parametrize("edits", [[], NOTED], ids=["a choice", "a choice and a text"])
def test_a_sound_environment_passes(tmp_path: Path, edits: list[tuple[str, str, str]]) -> None:
    found = results(Broken("a sound one", "", "", edits).write(tmp_path))
    assert {check: result.evidence for check, result in found.items() if result.status != "pass"} == {}
