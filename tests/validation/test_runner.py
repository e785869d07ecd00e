"""Validation of packages by the public policies: what each result is, and what ends a run."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.environment_folders import fresh_scaffold, scaffold, write_files
from tests.support.packages import PLAN, declarations, package

from openenv.core.exceptions import ProviderError
from openenv.validation import (
    ExecResult,
    Level,
    PolicyError,
    ProviderCapability,
    SignatureError,
    ValidationReport,
    load_policy,
    run_validation,
)
from openenv.validation.manifest import ExecutionDeclaration
from openenv.validation.policy import OWN_POLICY
from openenv.validation.providers import RunningSubject, StartupError
from openenv.validation.providers.local_process import LocalProcessValidationProvider
from openenv.validation.runner import source_digest
from openenv.validation.runtime.contracts import LaunchSpec

RESOURCES = declarations()["resources"]
DIGEST = "sha256:" + "0" * 64


def runnable(folder: Path, **changed: Any) -> Path:
    """Write a package that says how it is run."""
    write_files(folder, {"validation/runtime.json": json.dumps(PLAN)})
    return package(folder, declarations(**{"execution": {}, **changed}))


def outcome(report: ValidationReport, check_id: str) -> tuple[str, list[str]]:
    found = next(result for result in report.results if result.check_id == check_id)
    return found.status.value, found.evidence


class Provider:
    """Provider that builds and starts nothing, and does what a test has it do."""

    name = "nothing"
    capabilities = frozenset({ProviderCapability.EXEC})
    supported_network_modes = frozenset({"public"})

    def __init__(
        self,
        build: Callable[[], object] = str,
        start: Callable[[], object] = str,
        stop: Callable[[], object] = str,
    ) -> None:
        self._build, self._start, self._stop = build, start, stop

    def build(self, root: Path, execution: ExecutionDeclaration) -> str:
        self._build()
        return DIGEST

    def start(self, spec: LaunchSpec) -> RunningSubject:
        self._start()
        return Silent(self._stop)


class Silent:
    """Subject that answers nothing, and can be stopped unless that raises."""

    base_url = "http://127.0.0.1:9"

    def __init__(self, stop: Callable[[], object]) -> None:
        self._stop = stop

    def inspect(self) -> dict[str, Any]:
        return {}

    def logs(self, max_bytes: int = 65536) -> str:
        return ""

    def exec(self, argv: Sequence[str], timeout_s: float) -> ExecResult:
        raise NotImplementedError

    def stop(self) -> None:
        self._stop()


def raising(error: BaseException) -> Callable[[], object]:
    def raise_it() -> None:
        raise error

    return raise_it


class TestStatic:
    """Nothing of a package is run."""

    def test_only_checks_with_a_grader_have_a_result(self, tmp_path: Path) -> None:
        report = run_validation(package(tmp_path, declarations()), max_level=Level.STATIC)
        assert [(each.check_id, each.status.value) for each in report.results] == [("static.manifest", "pass")]
        assert (report.policy_version, report.report_schema_version, report.verdict.value) == ("v1", "1", "pass")
        assert report.target == str(tmp_path)

    def test_a_manifest_that_is_no_good_fails(self, tmp_path: Path) -> None:
        report = run_validation(package(tmp_path), max_level=Level.STATIC)
        assert outcome(report, "static.manifest") == ("fail", ["openenv.yaml has no `validation:` block"])
        assert (report.results[0].measured, report.manifest) == ({"schema_errors": 1}, None)

    def test_links_are_no_source(self, tmp_path: Path) -> None:
        (package(tmp_path, declarations()) / "link").symlink_to("/")
        report = run_validation(tmp_path, max_level=Level.STATIC)
        expected = ["package source could not be verified before validation"]
        assert outcome(report, "static.manifest") == ("error", expected)
        assert (report.source_digest, report.verdict.value) == ("", "fail")

    def test_a_folder_without_a_signature_has_no_report(self, tmp_path: Path) -> None:
        with pytest.raises(SignatureError):
            run_validation(tmp_path)

    def test_our_policy_has_our_checks(self, tmp_path: Path) -> None:
        report = run_validation(package(tmp_path), max_level=Level.STATIC, policy=load_policy(OWN_POLICY))
        assert outcome(report, "static.syntax") == ("pass", [])


def test_the_digest_is_that_of_every_regular_file(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "a", {"x.txt": "x", "b/y.txt": "y"})
    digest = source_digest(folder)
    assert len(digest) == 64
    for ignored in (".git", "__pycache__", ".venv", ".worktrees", "outputs", "b/outputs"):
        write_files(folder, {f"{ignored}/z": "z"})
    assert source_digest(folder) == digest
    write_files(folder, {"runs/z": "z"})
    assert source_digest(folder) != digest


class TestSkipped:
    """What is not run has a reason."""

    @pytest.mark.parametrize(
        ("changed", "reason"),
        [
            ({"execution": {"requires_credentials": True}}, "credential_delivery is deferred for this release"),
            ({"network": {"mode": "no-network"}}, "provider cannot enforce network mode no-network"),
            ({"resources": {**RESOURCES, "gpus": 1}}, "missing provider capability: gpu"),
        ],
    )
    def test_a_package_that_can_not_be_run(self, tmp_path: Path, changed: dict[str, Any], reason: str) -> None:
        report = run_validation(runnable(tmp_path, **changed), provider=Provider())
        assert outcome(report, "runtime.startup") == ("skip", [reason])
        assert outcome(report, "runtime.state_contract") == ("skip", ["unmet dependency: runtime.startup"])
        assert outcome(report, "semantic.oracle_max") == ("skip", ["grader not implemented in this build"])
        assert (report.levels_run, report.verdict.value) == ([Level.STATIC], "warn")

    def test_a_package_that_does_not_say_how_it_is_run(self, tmp_path: Path) -> None:
        report = run_validation(package(tmp_path, declarations()), provider=Provider())
        expected = ("skip", ["missing validation.execution declaration and runtime plan"])
        assert outcome(report, "runtime.startup") == expected
        assert report.report_schema_version == "2"

    def test_a_build_that_is_not_wanted(self, tmp_path: Path) -> None:
        report = run_validation(runnable(tmp_path), skip_build=True, provider=Provider(raising(ProviderError("no"))))
        expected = ("skip", ["--skip-build: build-dependent runtime checks skipped"])
        assert outcome(report, "runtime.startup") == expected

    def test_all_checks_of_a_package_without_a_manifest(self, tmp_path: Path) -> None:
        report = run_validation(package(tmp_path), max_level=Level.RUNTIME)
        assert len(report.results) == 17
        assert outcome(report, "runtime.rubric_introspectable") == ("skip", ["unmet dependency: valid manifest"])

    @pytest.mark.parametrize(
        ("capabilities", "concerned"),
        [
            ({}, set()),
            ({"rubric_tree": True}, {"runtime.rubric_introspectable", "runtime.reward_attribution"}),
            ({"declared_task_count": {"train": 1}}, {"runtime.task_declaration_accuracy"}),
        ],
    )
    def test_checks_of_what_is_not_declared_are_left_out(
        self, tmp_path: Path, capabilities: dict[str, Any], concerned: set[str]
    ) -> None:
        declared = {"verifier": {"kind": "reward_channel"}, **capabilities}
        report = run_validation(package(tmp_path, declarations(capabilities=declared)), skip_build=True)
        ids = {result.check_id for result in report.results}
        every = {"runtime.rubric_introspectable", "runtime.reward_attribution", "runtime.task_declaration_accuracy"}
        assert ids & every == concerned

    def test_the_first_policy_is_for_the_static_level(self, tmp_path: Path) -> None:
        with pytest.raises(PolicyError, match="runtime validation requires policy v2; v1 supports --level static"):
            run_validation(package(tmp_path), policy=load_policy("v1"))


@pytest.mark.level("socket")
class TestEnded:
    """A run that ends too early is a result of ``runtime.startup``."""

    def test_a_plan_that_is_missing(self, tmp_path: Path) -> None:
        report = run_validation(package(tmp_path, declarations(execution={})), provider=Provider())
        status, evidence = outcome(report, "runtime.startup")
        assert (status, "runtime plan could not be read" in evidence[0]) == ("fail", True)

    @pytest.mark.parametrize(
        ("provider", "status", "reason"),
        [
            (Provider(raising(ProviderError("out of disk"))), "error", "provider failed (ProviderError): out of disk"),
            (Provider(raising(OSError("gone"))), "error", "provider failed (OSError): gone"),
            (Provider(raising(KeyboardInterrupt())), "error", "validation interrupted"),
            (Provider(start=raising(StartupError("not healthy", "a\nb"))), "fail", "not healthy The end of its log:"),
            (Provider(start=raising(KeyboardInterrupt())), "error", "validation interrupted"),
        ],
    )
    def test_a_build_or_start_that_fails(self, tmp_path: Path, provider: Provider, status: str, reason: str) -> None:
        report = run_validation(runnable(tmp_path), provider=provider)
        found, evidence = outcome(report, "runtime.startup")
        assert (found, evidence[0]) == (status, reason)
        assert report.levels_run == [Level.STATIC, Level.RUNTIME]
        assert report.verdict.value == "fail"

    def test_a_subject_that_can_not_be_stopped(self, tmp_path: Path) -> None:
        provider = Provider(stop=raising(ProviderError("stuck")))
        report = run_validation(runnable(tmp_path / "a"), provider=provider, artifacts_dir=tmp_path / "b")
        assert outcome(report, "runtime.startup") == ("error", ["subject teardown failed: stuck"])
        cleanup = json.loads((tmp_path / "b" / "cleanup.json").read_text())
        assert cleanup == {"required": True, "completed": False}

    def test_source_that_changes_meanwhile(self, tmp_path: Path) -> None:
        folder = runnable(tmp_path)
        report = run_validation(folder, provider=Provider((folder / "new.py").touch))
        assert outcome(report, "runtime.startup") == ("error", ["package source changed during validation"])

    def test_a_subject_that_does_not_answer(self, tmp_path: Path) -> None:
        report = run_validation(runnable(tmp_path), provider=Provider())
        assert outcome(report, "runtime.startup")[0] == "pass"
        status, evidence = outcome(report, "runtime.reward_well_formed")
        assert (status, "schema failed" in evidence[0]) == ("skip", True)


@pytest.mark.level("process")
class TestRun:
    """A package is started in a process of this machine, and its planned episode is played."""

    def folder(self, parent: Path) -> Path:
        folder = scaffold(parent, "my_env")
        content = yaml.safe_load((folder / "openenv.yaml").read_text())
        content["validation"] = declarations(execution={"dockerfile": "server/Dockerfile"})
        files = {"openenv.yaml": yaml.safe_dump(content), "validation/runtime.json": json.dumps(PLAN)}
        return write_files(folder, files)

    def test_the_episode_is_graded(self, tmp_path: Path) -> None:
        folder, bundle = self.folder(tmp_path), tmp_path / "report.artifacts"
        report = run_validation(folder, provider=LocalProcessValidationProvider(), artifacts_dir=bundle)
        assert outcome(report, "runtime.startup")[0] == "pass"
        for check in ("reward_well_formed", "observation_schema", "state_contract"):
            assert outcome(report, f"runtime.{check}")[0] == "pass", outcome(report, f"runtime.{check}")
        assert report.levels_run == [Level.STATIC, Level.RUNTIME]
        assert len(json.loads((bundle / "collector-trace.json").read_text())["exchanges"]) == 6
        assert json.loads((bundle / "report.json").read_text())["source_digest"] == source_digest(folder)

    def test_what_init_makes_passes(self, tmp_path: Path) -> None:
        folder = fresh_scaffold(tmp_path, "my_env")
        content = yaml.safe_load((folder / "openenv.yaml").read_text())
        content["validation"]["network"] = {"mode": "public"}  # what every machine can give
        write_files(folder, {"openenv.yaml": yaml.safe_dump(content)})
        report = run_validation(folder, provider=LocalProcessValidationProvider())
        assert [each.check_id for each in report.results if each.status.value == "pass"][:5] == [
            "static.manifest",
            "runtime.startup",
            "runtime.reward_well_formed",
            "runtime.observation_schema",
            "runtime.state_contract",
        ]
        assert [each.evidence for each in report.results if each.status.value in ("fail", "error")] == []

    def test_a_server_that_does_not_start_fails(self, tmp_path: Path) -> None:
        folder = write_files(self.folder(tmp_path), {"server/my_env_environment.py": "raise RuntimeError('broken')"})
        report = run_validation(folder, max_level=Level.RUNTIME, provider=LocalProcessValidationProvider())
        status, evidence = outcome(report, "runtime.startup")
        assert (status, evidence[-1]) == ("fail", "RuntimeError: broken")
