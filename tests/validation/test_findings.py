"""Checks: their findings become results, and warnings have an id of their own."""

from collections.abc import Sequence

import pytest

from openenv.validation.findings import Check, Finding, LeftOutError, Measurement, fail, run_check, shown, warn

MIXED = (warn("a", "do this"), fail("b", "do that"), warn("c", "do this"))


def results_of_findings(
    findings: Sequence[Finding], warns_as: str = ""
) -> list[tuple[str, str, list[str], str | None]]:
    check: Check[None] = Check("static.x", "looks at x", lambda _: findings, warns_as)
    results = run_check(check, None)
    return [(each.check_id, each.status.value, each.evidence, each.remediation) for each in results]


def test_a_check_without_findings_passes() -> None:
    assert results_of_findings(()) == [("static.x", "pass", [], None)]


def test_warnings_have_an_id_of_their_own_and_each_remedy_is_there_once() -> None:
    assert results_of_findings(MIXED) == [
        ("static.x", "fail", ["b"], "do that"),
        ("static.x_advice", "fail", ["a", "c"], "do this"),
    ]


@pytest.mark.parametrize("findings", [(), MIXED])
def test_warnings_of_a_check_that_names_their_id_always_have_a_result(findings: Sequence[Finding]) -> None:
    assert [check_id for check_id, *_ in results_of_findings(findings, "static.y")] == ["static.x", "static.y"]


def test_a_check_that_only_warns_has_one_result() -> None:
    assert results_of_findings(MIXED, "static.x") == [("static.x", "fail", ["a", "b", "c"], "do this\ndo that")]


def test_the_subject_stands_in_the_report() -> None:
    check: Check[None] = Check("static.x", "looks at x", lambda _: MIXED)
    assert run_check(check, None)[0].measured == {"subject": "looks at x", "findings": 1}


def test_what_was_measured_stands_in_the_result_of_the_faults_alone() -> None:
    found = (Measurement({"probes": 7}), warn("a", "do this"), Measurement({"left_out": 2}, "2 were left out"))
    check: Check[None] = Check("static.x", "looks at x", lambda _: found)
    passed, advice = run_check(check, None)
    assert (passed.status, passed.evidence) == ("pass", ["2 were left out"])
    assert passed.measured == {"subject": "looks at x", "findings": 0, "probes": 7, "left_out": 2}
    assert advice.measured == {"subject": "looks at x", "findings": 1}


def _leave_out(_: None) -> list[Finding]:
    raise LeftOutError("there is no x")


def test_a_check_that_can_not_be_made_is_left_out_with_the_reason() -> None:
    [result] = run_check(Check("static.x", "looks at x", _leave_out), None)
    assert (result.status.value, result.evidence, result.measured) == (
        "skip",
        ["there is no x"],
        {"subject": "looks at x"},
    )


def test_a_long_value_is_shortened() -> None:
    assert shown({"word": "mouse"}) == '{"word": "mouse"}'
    assert len(shown("x" * 1000)) == 200
