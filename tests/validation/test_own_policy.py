"""The report over all checks."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.broken_environments import IN_FILES, Broken
from tests.support.environment_folders import fresh_scaffold, scaffold, write_files
from tests.support.outcomes import outcomes

from openenv.auto import find_environment
from openenv.core.exceptions import EnvironmentNotFoundError
from openenv.validation import Level, load_policy, validate_folder, write_report
from openenv.validation.folder_checks import CHECKS
from openenv.validation.policy import OWN_POLICY, failing


@pytest.mark.parametrize("made", [scaffold, fresh_scaffold])
def test_a_scaffold_passes_every_check(tmp_path: Path, made: Callable[[Path, str], Path]) -> None:
    report = validate_folder(made(tmp_path, "my_env"))
    assert {result.check_id: result.status.value for result in report.results} == {check.id: "pass" for check in CHECKS}
    assert report.verdict == "pass"


@pytest.mark.parametrize("name", ["echo", "wordle", "openspiel", "catch"])
def test_the_reference_environments_do_not_fail(name: str) -> None:
    report = validate_folder(find_environment(name).folder)
    assert failing(report.results, load_policy(OWN_POLICY)) == []


def test_the_report_as_json(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    report = json.loads(write_report(validate_folder(folder)))
    assert sorted(report) == [
        "lane",
        "levels_run",
        "manifest",
        "policy_version",
        "report_schema_version",
        "results",
        "signature",
        "source_digest",
        "target",
        "verdict",
    ]
    assert (report["target"], report["policy_version"]) == (str(folder), OWN_POLICY)
    assert report["levels_run"] == [Level.STATIC]
    for result in report["results"]:
        assert sorted(result) == ["check_id", "duration_s", "evidence", "measured", "remediation", "status"]
        assert 0 <= result["duration_s"] < 60


@pytest.mark.parametrize("broken", IN_FILES, ids=lambda broken: broken.name)
def test_each_fault_of_the_files_is_found(tmp_path: Path, broken: Broken) -> None:
    found = outcomes(validate_folder(broken.write(tmp_path)).results)[broken.check]
    assert any(broken.evidence in text for text in found.evidence), found.evidence
    assert found.status == broken.status
    assert found.remediation


def test_the_verdict_is_the_worst_status(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    write_files(folder, {"README.md": "# My env"})
    assert validate_folder(folder).verdict == "warn"
    write_files(folder, {"client.py": "def ("})
    assert validate_folder(folder).verdict == "fail"


def test_an_empty_folder_with_a_broken_manifest_gets_a_whole_report(tmp_path: Path) -> None:
    report = validate_folder(write_files(tmp_path, {"openenv.yaml": ": : :"}))
    assert report.manifest is None
    assert len(outcomes(report.results)) == len(CHECKS)
    assert report.verdict == "fail"


def test_no_environment_no_report(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentNotFoundError):
        validate_folder(tmp_path)


def test_check_ids_are_unique() -> None:
    assert len({check.id for check in CHECKS}) == len(CHECKS)
