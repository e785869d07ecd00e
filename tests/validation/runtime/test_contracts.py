"""The runtime plan is read within bounds, and what a provider starts is valid."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from openenv.validation.manifest import ExecutionDeclaration, NetworkPolicy, ResourceDeclaration
from openenv.validation.runtime.contracts import (
    MAX_PLAN_ACTIONS,
    MAX_PLAN_BYTES,
    LaunchSpec,
    RuntimePlan,
    RuntimePlanError,
    RuntimeReset,
    load_runtime_plan,
)

PLAN: dict[str, Any] = {
    "plan_schema_version": "1",
    "reset": {"episode_id": "probe-1", "seed": 7, "options": {"size": 3}},
    "actions": [{"move": "left"}, {"move": "right"}],
}
_DECLARED = ExecutionDeclaration(probe_path="runtime.json")
_DEEP = "[" * 40 + "]" * 40


def load(folder: Path, content: str | bytes) -> RuntimePlan:
    (folder / "runtime.json").write_bytes(content.encode() if isinstance(content, str) else content)
    return load_runtime_plan(folder, _DECLARED)


def test_plan_is_read(tmp_path: Path) -> None:
    plan = load(tmp_path, json.dumps(PLAN))
    assert (plan.reset.episode_id, plan.reset.seed, plan.reset.options) == ("probe-1", 7, {"size": 3})
    assert plan.actions == PLAN["actions"]


def _changed(**changes: Any) -> str:
    return json.dumps({**PLAN, **changes})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"actions": [\n  }', "invalid runtime plan JSON at line 2, column 3: "),
        ('{"a": 1, "a": 2}', "invalid runtime plan: the key 'a' stands twice"),
        ('{"a": NaN}', "invalid runtime plan: expected finite numbers, got NaN"),
        ('{"a": 1e999}', "invalid runtime plan: expected finite numbers"),
        (_DEEP, "invalid runtime plan: expected values at most 32 levels deep"),
        ("[" * 30000, "invalid runtime plan: expected values at most 32 levels deep"),
        (json.dumps([0] * 10_000), "invalid runtime plan: expected at most 10000 values"),
        ("1" * 5000, "invalid runtime plan: "),
        ('{"a": "\\ud800"}', "runtime plan contains invalid text encoding"),
        (b'{"a": "\xff"}', "runtime plan contains invalid text encoding"),
        (" " * (MAX_PLAN_BYTES + 1), f"invalid runtime plan: expected at most {MAX_PLAN_BYTES} bytes"),
        ("[]", "runtime plan schema validation failed: "),
        (_changed(actions=[]), "runtime plan schema validation failed: actions: "),
        (_changed(actions=[{}] * (MAX_PLAN_ACTIONS + 1)), "runtime plan schema validation failed: actions: "),
        (_changed(actions=["left"]), "runtime plan schema validation failed: actions.0: "),
        (_changed(more=1), "runtime plan schema validation failed: more: "),
        (_changed(reset={"episode_id": "a", "seed": "7"}), "runtime plan schema validation failed: reset.seed: "),
        (_changed(reset={"episode_id": "a", "seed": 2**32}), "runtime plan schema validation failed: reset.seed: "),
        (_changed(reset={"episode_id": "", "seed": 1}), "runtime plan schema validation failed: reset.episode_id: "),
    ],
)
def test_invalid_plan_is_refused(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(RuntimePlanError) as raised:
        load(tmp_path, content)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("name", ["episode_id", "seed"])
def test_options_do_not_repeat_fields_of_reset(name: str) -> None:
    with pytest.raises(ValidationError, match=f"options may not contain {name}"):
        RuntimeReset(episode_id="a", seed=1, options={name: 1})


def test_missing_plan_and_pipe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimePlanError, match=r"^runtime plan could not be read \(FileNotFoundError\)$"):
        load_runtime_plan(tmp_path, _DECLARED)
    (tmp_path / "runtime.json").mkdir()
    with pytest.raises(RuntimePlanError, match=r"^runtime plan could not be read \(\w+\)$"):
        load_runtime_plan(tmp_path, _DECLARED)


def test_plan_outside_of_the_package_is_refused(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (tmp_path / "runtime.json").write_text(json.dumps(PLAN))
    (package / "runtime.json").symlink_to(tmp_path / "runtime.json")
    with pytest.raises(RuntimePlanError, match=r"runtime\.json leads out of the package"):
        load_runtime_plan(package, _DECLARED)


@given(st.binary(max_size=200))
def test_no_content_raises_anything_else(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.getbasetemp()
    with pytest.raises(RuntimePlanError):
        load(folder, content)


def _spec(**changes: Any) -> LaunchSpec:
    settings: dict[str, Any] = {
        "image_ref": f"sha256:{'0' * 64}",
        "resources": ResourceDeclaration(cpu=1, memory_mb=512, disk_mb=64, episode_timeout_s=60),
        "network": NetworkPolicy(mode="no-network"),
        "run_id": "run-1",
    }
    return LaunchSpec(**{**settings, **changes})


def test_specification_has_defaults() -> None:
    spec = _spec(image_ref=f"echo@sha256:{'a' * 64}")
    assert (spec.startup_timeout_s, spec.env_vars) == (30.0, {})


@pytest.mark.parametrize(
    "changes",
    [
        {"image_ref": "echo:latest"},
        {"image_ref": f"sha256:{'A' * 64}"},
        {"run_id": "Run"},
        {"run_id": "r" * 64},
        {"startup_timeout_s": 0},
        {"startup_timeout_s": 301},
        {"env_vars": {"1A": "x"}},
        {"env_vars": {"A": "\0"}},
        {"env_vars": {"A": "x" * 8193}},
        {"env_vars": {f"A{number}": "" for number in range(65)}},
        {"more": 1},
    ],
)
def test_specification_is_bounded(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        _spec(**changes)
