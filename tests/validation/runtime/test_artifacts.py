"""A bundle has the report and its evidence, sums of all files, and no secrets."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.validated import manifest, observed, state, whole_episode

from openenv.validation.report import CheckResult, ValidationReportV2
from openenv.validation.runtime.artifacts import write_runtime_bundle
from openenv.validation.runtime.contracts import RuntimeEvidence, RuntimePlan, WireExchange
from openenv.validation.types import CheckStatus, Lane, Level, SignatureKind, Verdict

_PLAN = {"plan_schema_version": "1", "reset": {"episode_id": "a", "seed": 1}, "actions": [{"password": "hunter2"}]}


def report(*results: CheckResult) -> ValidationReportV2:
    """Make a report."""
    return ValidationReportV2(
        report_schema_version="2",
        target="counter",
        source_digest="0" * 64,
        signature=SignatureKind.OPENENV_SERVED,
        manifest=manifest(),
        policy_version="v2",
        lane=Lane.LOCAL,
        levels_run=[Level.STATIC, Level.RUNTIME],
        results=list(results),
        verdict=Verdict.WARN,
    )


def _result(check_id: str, status: CheckStatus) -> CheckResult:
    return CheckResult(check_id=check_id, status=status, duration_s=0.0)


def _read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def test_bundle_has_the_report_and_its_evidence(tmp_path: Path) -> None:
    found = report(
        _result("static.manifest", CheckStatus.PASS),
        _result("runtime.startup", CheckStatus.PASS),
        _result("runtime.state_contract", CheckStatus.FAIL),
        _result("runtime.seed_control", CheckStatus.SKIP),
    )
    plan = RuntimePlan.model_validate(_PLAN)
    folder = tmp_path / "new" / "bundle"
    write_runtime_bundle(folder, found, plan=plan, evidence=whole_episode(), cleanup={"stopped": True})
    assert _read(folder, "coverage.json") == {
        "requested_runtime_checks": ["runtime.startup", "runtime.state_contract", "runtime.seed_control"],
        "executed": ["runtime.startup", "runtime.state_contract"],
        "incomplete": ["runtime.seed_control"],
    }
    assert _read(folder, "report.json") == found.model_dump(mode="json")
    assert _read(folder, "cleanup.json") == {"stopped": True}
    assert _read(folder, "runtime-plan.json")["actions"] == [{"password": "[REDACTED]"}]
    described = _read(folder, "run-manifest.json")
    assert (described["bundle_schema_version"], described["manifest_schema_version"]) == ("1", "2")
    assert (described["plan_redacted"], described["provider"]) == (True, None)
    evidence = _read(folder, "collector-evidence.json")
    assert (evidence["complete"], evidence["redacted"], evidence["omitted_trace_fields"]) == (True, False, [])
    assert (evidence["schema_available"], evidence["reset_schema_available"]) == (True, False)
    exchanges = _read(folder, evidence["trace_file"])["exchanges"]
    assert exchanges[1]["response"] == json.loads(state(0))


def test_sums_are_those_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "runtime-plan.json").write_text("of an earlier bundle")
    write_runtime_bundle(tmp_path, report())
    sums = dict(line.split("  ")[::-1] for line in (tmp_path / "SHA256SUMS").read_text().splitlines())
    assert set(sums) == {file.name for file in tmp_path.iterdir()} - {"SHA256SUMS"}
    for name, digest in sums.items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == digest


@pytest.mark.parametrize(
    ("key", "value", "is_kept"),
    [
        ("note", "hf_abcdefghij", False),
        ("note", "see sk-abcdefghijkl", False),
        ("note", "Authorization: Bearer abc.def", False),
        ("note", "github_pat_abcdefghij", False),
        ("apiKey", "short", False),
        ("api_key", 7, False),
        ("client_secret", {"inner": "x"}, False),
        ("access-token", ["x"], False),
        ("max_tokens", 7, True),
        ("prompt_token_ids", [1, 2], True),
        ("note", "ask-the-desk", True),
    ],
)
def test_secrets_are_redacted(tmp_path: Path, key: str, value: Any, is_kept: bool) -> None:
    answer = observed(1, metadata={"deep": [{key: value}]})
    evidence = RuntimeEvidence((WireExchange("step", "{}", answer),))
    write_runtime_bundle(tmp_path, report(), evidence=evidence)
    shown = _read(tmp_path, "collector-trace.json")["exchanges"][0]["response"]["data"]["metadata"]["deep"][0][key]
    assert (shown == value) is is_kept
    assert is_kept or "[REDACTED]" in str(shown)


def test_secret_of_this_process_is_redacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_KEY", "correct-horse-battery")
    evidence = RuntimeEvidence((WireExchange("step", "{}", observed("correct-horse-battery")),))
    write_runtime_bundle(tmp_path, report(), evidence=evidence)
    assert "correct-horse" not in (tmp_path / "collector-trace.json").read_text()


def test_frames_that_are_no_json_are_named(tmp_path: Path) -> None:
    evidence = RuntimeEvidence((WireExchange("step", "{}", "{garbage"),), "{", failure_phase="step")
    write_runtime_bundle(tmp_path, report(), evidence=evidence)
    described = _read(tmp_path, "collector-evidence.json")
    assert described["omitted_trace_fields"] == ["exchanges.0.response"]
    assert (described["schema_parse_failed"], described["complete"]) == (True, False)
