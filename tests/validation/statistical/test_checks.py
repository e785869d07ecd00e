"""The checks of the statistical level, and what they are made of where they are not made."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.validation.museum.exhibit import LIMITS, Exhibit, graded
from tests.validation.museum.games import Walk

from openenv.validation.findings import ADVICE
from openenv.validation.policy import OWN_POLICY, load_policy
from openenv.validation.statistical.checks import SAMPLE_CHECKS, STATISTICAL_CHECKS, each_sample_results
from openenv.validation.types import CheckStatus, Lane, Level

PAGE = Path(__file__).parents[3] / "docs" / "validation.md"
WALK = Exhibit(Walk, "", Walk.make_player)


def test_each_check_has_its_row_in_the_docs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for check in STATISTICAL_CHECKS:
        assert f"| `{check.id}` |" in page


def test_the_policy_knows_each_check_and_its_warnings() -> None:
    entries = load_policy(OWN_POLICY).entries_for_lane(Lane.LOCAL)
    for check in STATISTICAL_CHECKS:
        assert {entries[name].level for name in (check.id, check.warns_as or f"{check.id}{ADVICE}")} == {
            Level.STATISTICAL
        }


@pytest.mark.level("socket")
def test_all_figures_are_in_the_results() -> None:
    with graded(WALK, Walk) as environment:
        environment.limits = replace(LIMITS, tasks=12)
        results = [result for found in each_sample_results(environment) for result in found]
    assert [result.check_id for result in results] == [check.id for check in SAMPLE_CHECKS]
    assert {result.status for result in results} == {CheckStatus.PASS}
    measured = {result.check_id.removeprefix("statistical."): result.measured for result in results}
    separation = measured["difficulty_separation"]
    assert separation["random"]["high"] < separation["weak"]["mean"] < separation["scripted"]["low"] == 1.0
    assert separation["scripted_over_weak"]["low"] > 0
    assert measured["variance_bound"]["variances"]["scripted"] == {"between_tasks": 0.0, "within_tasks": 0.0}
    assert measured["training_signal"]["group_size"] == 8
    assert 0 < measured["training_signal"]["random"]["mean"] < 1
    assert measured["reward_reachability"]["reached"]["mean"] == 1.0


@pytest.mark.level("socket")
def test_without_a_scripted_player_all_are_left_out_with_the_reason() -> None:
    with graded(WALK, Walk) as environment:
        environment.make_player = None
        results = [result for found in each_sample_results(environment) for result in found]
    assert {result.status for result in results} == {CheckStatus.SKIP}
    assert all("has no scripted player" in result.evidence[0] for result in results)
