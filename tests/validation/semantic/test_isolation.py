"""Isolated grading: what is promised is verified, what it excludes is not sent, and what was left out has a number."""

import pytest
from tests.validation.museum.exhibit import EXHIBITS, Exhibit, Questions, graded
from tests.validation.museum.isolation import VariablesOfTheAgent

from openenv.validation.findings import run_check
from openenv.validation.report import CheckResult
from openenv.validation.semantic.checks import SEMANTIC_CHECKS
from openenv.validation.semantic.graded import DeclaredRewards
from openenv.validation.trials import RunLimits

CHECKS = {check.id.removeprefix("semantic."): check for check in SEMANTIC_CHECKS}
SHELL = next(each for each in EXHIBITS if each.broken is VariablesOfTheAgent)


def results(exhibit: Exhibit, *names: str, is_sound: bool = True, play_s: float = 1000.0) -> list[CheckResult]:
    with graded(exhibit, exhibit.twin if is_sound else exhibit.broken) as environment:
        assert environment.probed
        environment.limits = RunLimits(play_s=play_s)
        return [result for name in names for result in run_check(CHECKS[name], environment)]


@pytest.mark.level("process")
def test_a_promise_that_is_kept_excludes_the_families_of_touched_grading() -> None:
    isolated, tampering = results(SHELL, "isolated_grading", "probe_tamper")
    assert isolated.status == tampering.status == "pass"
    assert isolated.measured["artifacts"] == ["count.txt"]
    assert len(isolated.measured["channels"]) == 6
    assert isolated.measured["excludes"] == ["touched tests", "touched tools", "the reward's file", "the clock"]
    assert "environment variables" in isolated.evidence[0]
    assert tampering.measured["excluded_by"] == "semantic.isolated_grading"
    assert tampering.measured["probes"] == 0


@pytest.mark.level("process")
def test_a_promise_that_is_not_kept_excludes_nothing() -> None:
    isolated, tampering = results(SHELL, "isolated_grading", "probe_tamper", is_sound=False)
    assert [isolated.status, tampering.status] == ["fail", "pass"]
    assert "earns 0 after them and 1 without; sent as run.command" in isolated.evidence[0]
    assert "excluded_by" not in tampering.measured


def test_a_promise_that_can_not_be_verified_is_a_warning() -> None:
    quiz = Exhibit(Questions, "", Questions.make_player, DeclaredRewards(artifacts=("answer",)))
    isolated, advice = results(quiz, "isolated_grading")
    assert (isolated.status, advice.status) == ("pass", "fail")
    assert "could not be verified" in advice.evidence[0]


def test_without_a_promise_nothing_is_measured() -> None:
    (isolated,) = results(Exhibit(Questions, "", Questions.make_player), "isolated_grading")
    assert (isolated.status, isolated.evidence) == ("pass", [])
    assert "channels" not in isolated.measured


def test_probes_for_which_no_time_is_left_are_counted() -> None:
    questions = Exhibit(Questions, "", Questions.make_player)
    (all_sent,) = results(questions, "probe_nothing")
    (none_sent,) = results(questions, "probe_nothing", play_s=0.0)
    assert (all_sent.measured["left_out"], all_sent.evidence) == (0, [])
    assert none_sent.measured["probes"] == 0
    count = none_sent.measured["left_out"]
    assert count > 0
    assert none_sent.evidence == [f"{count} of {count} probes were left out: no time was left within 0 s"]
