"""Severity policies: those that are published, ours, and the verdicts that they give."""

import pytest
from pydantic import ValidationError

from openenv.validation import (
    CheckResult,
    CheckStatus,
    Lane,
    Level,
    PolicyError,
    Severity,
    SeverityPolicy,
    Verdict,
    apply_policy,
    load_policy,
)
from openenv.validation.adapted_checks import ADAPTED_CHECKS
from openenv.validation.findings import ADVICE, Check
from openenv.validation.folder_checks import CHECKS
from openenv.validation.policy import OWN_POLICY
from openenv.validation.run_checks import RUN_CHECKS
from openenv.validation.semantic.checks import SEMANTIC_CHECKS
from openenv.validation.statistical.checks import STATISTICAL_CHECKS


def result(check_id: str, status: str) -> CheckResult:
    return CheckResult(check_id=check_id, status=CheckStatus(status), duration_s=0.0)


def test_the_published_policies() -> None:
    first, second = load_policy("v1"), load_policy("v2")
    ids = [{entry.check_id for entry in policy.entries} for policy in (first, second)]
    assert (len(ids[0]), ids[1] - ids[0], ids[0] - ids[1]) == (45, {"runtime.startup"}, set())
    assert first.policy_version == "v1"
    assert (second.bounds.max_oracle_tolerance, second.bounds.min_floor_margin) == (0.1, 0.1)
    assert len(second.entries_for_lane(Lane.LOCAL)) == 34
    assert len(second.entries_for_lane(Lane.HUB)) == 46
    entry = second.entries_for_lane(Lane.HUB)["statistical.training_signal"]
    assert (entry.level, entry.lane, entry.severity) == (Level.STATISTICAL, Lane.HUB, Severity.ADVISORY)


@pytest.mark.parametrize(
    "check", [*CHECKS, *RUN_CHECKS, *ADAPTED_CHECKS, *SEMANTIC_CHECKS, *STATISTICAL_CHECKS], ids=lambda check: check.id
)
def test_our_policy_knows_each_check_and_its_warnings(check: Check[object]) -> None:
    entries = load_policy(OWN_POLICY).entries_for_lane(Lane.LOCAL)
    only_warns = check.warns_as == check.id
    warning = Severity.ADVISORY if check.id == "statistical.training_signal" else Severity.WARN  # as published
    assert entries[check.id].severity is (warning if only_warns else Severity.FAIL)
    warnings = entries.get(check.warns_as or f"{check.id}{ADVICE}")
    assert warnings is None or warnings.severity in (Severity.WARN, warning)


def test_our_policy_has_the_statistical_checks_of_the_hub_here() -> None:
    local = load_policy(OWN_POLICY).entries_for_lane(Lane.LOCAL)
    assert {entry.check_id for entry in load_policy("v2").entries} - local.keys() == {
        "hub.layer_isolation",
        "hub.time_to_first_work",
        "hub.cosign_signature",
        "hub.cross_host_determinism",
        "hub.immutable_versioning",
    }


@pytest.mark.parametrize("version", ["v9", "", "../severity-v1", "v1\0"])
def test_there_is_no_other_policy(version: str) -> None:
    with pytest.raises(PolicyError, match="no severity policy for version"):
        load_policy(version)


def test_ids_are_there_once() -> None:
    policy = load_policy("v1")
    with pytest.raises(ValidationError, match="duplicate check ids in policy"):
        SeverityPolicy(policy_version="x", entries=[*policy.entries, policy.entries[0]], bounds=policy.bounds)


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        ([], Verdict.PASS),
        ([("static.manifest", "pass"), ("static.layout", "pass")], Verdict.PASS),
        ([("static.manifest", "fail")], Verdict.FAIL),
        ([("static.layout", "fail")], Verdict.WARN),
        ([("static.manifest", "skip")], Verdict.WARN),
        ([("static.layout", "error")], Verdict.FAIL),
        ([("static.layout", "fail"), ("static.manifest", "fail")], Verdict.FAIL),
    ],
)
def test_the_verdict(results: list[tuple[str, str]], verdict: Verdict) -> None:
    assert apply_policy([result(*each) for each in results], load_policy("v1"), Lane.LOCAL) is verdict


def test_a_check_that_the_policy_does_not_know_has_no_verdict() -> None:
    for check_id in ("static.other", "statistical.headroom"):
        with pytest.raises(PolicyError, match=f"check id '{check_id}' is unknown to policy 'v1' in lane 'local'"):
            apply_policy([result(check_id, "pass")], load_policy("v1"), Lane.LOCAL)
    assert apply_policy([result("statistical.headroom", "pass")], load_policy("v1"), Lane.HUB) is Verdict.PASS
