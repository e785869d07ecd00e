"""Each documented defect is found by the check that is for it, by no other, and its twin raises no alarm."""

import time

import pytest
from tests.validation.museum import (
    games,
    isolation,
    judges,
    leaks,
    many_episodes,
    parts,
    programs,
    text_graders,
    tools,
    verifiers,
    work_folders,
)
from tests.validation.museum.exhibit import EXHIBITS, Exhibit, findings

from openenv.validation.report import CheckResult

ROOMS = (games, isolation, judges, leaks, many_episodes, parts, programs, text_graders, tools, verifiers, work_folders)
MAX_S = 5.0


@pytest.mark.level("process")
@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: exhibit.name)
def test_a_defect_is_found_by_its_check_alone(exhibit: Exhibit) -> None:
    begun = time.process_time()
    found = findings(exhibit, exhibit.broken)
    levels = 2 if exhibit.compares else 1
    assert time.process_time() - begun < MAX_S * levels
    assert list(found) == [exhibit.check], _evidence(found)
    assert exhibit.evidence in " ".join(found[exhibit.check].evidence)


@pytest.mark.level("process")
@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: exhibit.name)
def test_a_twin_raises_no_alarm(exhibit: Exhibit) -> None:
    found = findings(exhibit, exhibit.twin)
    assert not found, _evidence(found)


def _evidence(found: dict[str, CheckResult]) -> dict[str, list[str]]:
    return {name: result.evidence for name, result in found.items()}
