"""Normalized manifests: what may be declared, and the sentence for each fault."""

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.packages import declarations

from openenv.validation import ManifestError, NormalizedManifest
from openenv.validation.manifest import ExecutionDeclaration, NormalizedManifestV2

NAMED = {"name": "catch", "signature": "openenv.yaml"}


def manifest(**changed: Any) -> NormalizedManifest:
    return NormalizedManifest.model_validate({"manifest_schema_version": "1", **NAMED, **declarations(**changed)})


def test_what_is_not_declared_has_a_default() -> None:
    found = manifest()
    assert (found.version, found.judge, found.capabilities.task_api, found.resources.gpus) == (None, None, False, 0)


RESOURCES = declarations()["resources"]
VERIFIER = {"kind": "reward_channel"}
JUDGED = {"verifier": VERIFIER, "llm_judged": True}
PIN = {"model": "judge", "version": "1"}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"reward": {"range": [1, 1], "floor_margin": 1}}, "reward range must be strictly increasing, got (1.0, 1.0)"),
        ({"reward": {"floor_margin": -1}}, "greater than or equal to 0"),
        ({"reward": {}}, "Field required"),
        ({"resources": {**RESOURCES, "gpu_types": ["h100"]}}, "gpu_types is declared but gpus is 0"),
        ({"resources": {**RESOURCES, "cpu": 0}}, "greater than 0"),
        ({"resources": {**RESOURCES, "tpu": 1}}, "Extra inputs are not permitted"),
        (
            {"network": {"mode": "public", "allowed_hosts": ["x"]}},
            "allowed_hosts is only valid when mode is 'allowlist'",
        ),
        ({"network": {"mode": "allowlist"}}, "mode 'allowlist' requires at least one allowed host"),
        (
            {"capabilities": {"verifier": {"kind": "script"}}},
            "verifier.entry is required when verifier.kind is 'script'",
        ),
        (
            {"capabilities": {"verifier": {**VERIFIER, "entry": "x"}}},
            "verifier.entry is only valid when verifier.kind is 'script'",
        ),
        (
            {"capabilities": {"verifier": VERIFIER, "oracle": {"form": "injected_state", "location": "x"}}},
            "requires set_state",
        ),
        ({"capabilities": JUDGED}, "a judge pin is required when capabilities.llm_judged is true"),
        (
            {"capabilities": JUDGED, "judge": PIN},
            "reward.variance_tolerance is required when capabilities.llm_judged is true",
        ),
        ({"judge": PIN}, "a judge pin is declared but capabilities.llm_judged is false"),
        ({"types": {"tags": []}}, "at least 1 item"),
        ({"types": {"tags": [""]}}, "at least 1 character"),
    ],
)
def test_each_fault_has_its_sentence(changed: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError) as error:
        manifest(**changed)
    assert expected in str(error.value)


@pytest.mark.parametrize("path", ["", "/etc/x", "a\\b", "c:x", "../x", "a/../../x", "a\0b"])
def test_paths_stay_in_the_package(path: str) -> None:
    for key in ("probe_path", "dockerfile", "context"):
        with pytest.raises(ValidationError, match="must be a portable package-relative path"):
            ExecutionDeclaration.model_validate({key: path})


@pytest.mark.parametrize("path", [".", "a/"])
def test_a_context_may_be_a_folder_and_files_may_not(path: str) -> None:
    assert ExecutionDeclaration(context=path).context == path
    for key in ("probe_path", "dockerfile"):
        with pytest.raises(ValidationError, match="must name a file"):
            ExecutionDeclaration.model_validate({key: path})


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_credentials_are_declared_by_a_truth_value(value: Any) -> None:
    with pytest.raises(ValidationError):
        ExecutionDeclaration(requires_credentials=value)


def test_numbers_of_the_second_version_are_finite() -> None:
    content = {"manifest_schema_version": "2", **NAMED, **declarations(execution={})}
    assert NormalizedManifestV2.model_validate(content).execution == ExecutionDeclaration()
    content["reward"] = {"range": [0, float("inf")], "floor_margin": 1}
    with pytest.raises(ValidationError, match="schema 2 numeric declarations must be finite"):
        NormalizedManifestV2.model_validate(content)


def test_an_error_has_every_fault() -> None:
    error = ManifestError(["a: x", "b: y"], remediation="do it")
    assert (str(error), error.errors, error.remediation) == ("a: x; b: y", ["a: x", "b: y"], "do it")
