"""Grader of declarations: a policy's bounds."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.packages import declarations, package

from openenv.validation import CheckResult, Subject, load_policy
from openenv.validation.graders.static import StaticManifestGrader
from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser


def graded(folder: Path, **changed: Any) -> CheckResult:
    manifest = OpenEnvYamlParser().parse(package(folder, declarations(**changed)))
    return StaticManifestGrader(load_policy().bounds).run(Subject(folder, manifest, None, None, folder))


def test_declarations_within_the_bounds_pass(tmp_path: Path) -> None:
    found = graded(tmp_path, reward={"floor_margin": 0.1, "oracle_tolerance": 0.1, "variance_tolerance": 0.2})
    assert found.status == "pass"
    assert (found.measured["floor_margin"], found.measured["bounds"]["min_floor_margin"]) == (0.1, 0.1)


RESOURCES = declarations()["resources"]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {"reward": {"floor_margin": 1, "oracle_tolerance": 0.5}},
            "declared oracle_tolerance 0.5 exceeds the policy maximum 0.1",
        ),
        ({"reward": {"floor_margin": 0.05}}, "declared floor_margin 0.05 is below the policy minimum 0.1"),
        (
            {"reward": {"floor_margin": 1, "variance_tolerance": 0.3}},
            "declared variance_tolerance 0.3 exceeds the policy maximum 0.2",
        ),
        (
            {"resources": {**RESOURCES, "episode_timeout_s": 7200}},
            "declared episode_timeout_s 7200.0 exceeds the policy maximum 3600.0",
        ),
    ],
)
def test_each_bound_has_its_sentence(tmp_path: Path, changed: dict[str, Any], expected: str) -> None:
    found = graded(tmp_path, **changed)
    assert (found.status, found.evidence) == ("fail", [expected])
    assert found.remediation
