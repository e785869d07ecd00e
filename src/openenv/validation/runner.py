"""Validation of a package: its manifest is read, its graders run, and a policy gives the verdict."""

import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from openenv.validation.graders import Grader, GraderRegistry, Subject
from openenv.validation.graders.runtime import (
    EpisodeDeterminismGrader,
    EpisodeIsolationGrader,
    NetworkPolicyGrader,
    ObservationSchemaGrader,
    RewardWellFormedGrader,
    SeedControlGrader,
    StateContractGrader,
    TaskDeclarationGrader,
    ToolDeclarationGrader,
)
from openenv.validation.graders.static import StaticManifestGrader
from openenv.validation.manifest import ManifestError, NormalizedManifest, NormalizedManifestV2
from openenv.validation.own_policy import validate_folder
from openenv.validation.parsers import Parser, ParserRegistry
from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser
from openenv.validation.policy import OWN_POLICY, PolicyEntry, PolicyError, SeverityPolicy, load_policy, make_report
from openenv.validation.providers import ValidationProvider
from openenv.validation.report import CheckResult, ValidationReport, ValidationReportV2, skipped
from openenv.validation.runtime.artifacts import write_runtime_bundle
from openenv.validation.runtime.package_run import STARTUP, PackageRun
from openenv.validation.runtime.scheduler import execute_graders
from openenv.validation.signature import detect_signature
from openenv.validation.source import digest_if_readable, source_digest
from openenv.validation.types import CheckStatus, Lane, Level, SignatureKind

__all__ = [
    "REPORT_SCHEMA_VERSION",
    "default_grader_registry",
    "default_parser_registry",
    "default_provider",
    "run_validation",
    "source_digest",
]

REPORT_SCHEMA_VERSION: Literal["1"] = "1"
MANIFEST = "static.manifest"
NOT_IMPLEMENTED = "grader not implemented in this build"
NO_CLEANUP = {"required": False, "completed": True}
NO_MANIFEST = "unmet dependency: valid manifest"
# Checks without a grader that concern only packages that declare something, by the field of its capabilities.
_CONCERNS = {
    "runtime.rubric_introspectable": "rubric_tree",
    "runtime.reward_attribution": "rubric_tree",
    "runtime.task_declaration_accuracy": "declared_task_count",
}


def default_parser_registry() -> ParserRegistry:
    """Return the parsers that are part of OpenEnv.

    Example:
        >>> default_parser_registry().parser_for(SignatureKind.OPENENV_SERVED).signature.value
        'openenv.yaml'
    """
    registry = ParserRegistry()
    registry.register(OpenEnvYamlParser())
    return registry


def default_grader_registry(policy: SeverityPolicy) -> GraderRegistry:
    """Return the graders that are part of OpenEnv, and those of installed packages.

    Args:
        policy: The policy whose bounds the manifest's declarations must keep.

    Example:
        >>> default_grader_registry(load_policy()).get("static.manifest").level.name
        'STATIC'
    """
    registry = GraderRegistry()
    own: Sequence[Grader] = (
        StaticManifestGrader(policy.bounds),
        RewardWellFormedGrader(),
        ObservationSchemaGrader(),
        StateContractGrader(),
        NetworkPolicyGrader(),
        SeedControlGrader(),
        EpisodeDeterminismGrader(),
        EpisodeIsolationGrader(),
        ToolDeclarationGrader(),
        TaskDeclarationGrader(),
    )
    for grader in own:
        registry.register(grader)
    registry.load_entry_points()
    return registry


def default_provider() -> ValidationProvider:
    """Return the provider that is used where none is named: Docker where it is installed, else a confined process."""
    if shutil.which("docker") is not None:
        from openenv.validation.providers.docker import DockerValidationProvider

        return DockerValidationProvider()
    from openenv.validation.providers.local_process import LocalProcessValidationProvider

    return LocalProcessValidationProvider()


def run_validation(
    target: Path,
    *,
    max_level: Level = Level.SEMANTIC,
    skip_build: bool = False,
    policy: SeverityPolicy | None = None,
    provider: ValidationProvider | None = None,
    artifacts_dir: Path | None = None,
) -> ValidationReport | ValidationReportV2:
    """Check a package by a policy.

    Args:
        target: The package's folder.
        max_level: The highest level of checks.
        skip_build: Whether the package is neither built nor run.
        policy: The policy; ``v1`` for the static level if ``None``, else ``v2``.
        provider: The provider that builds and runs the package; see ``default_provider`` if ``None``.
        artifacts_dir: Folder for the report and the evidence that it is based on; none is written if ``None``.

    Returns:
        The report; of version 2 where the package was to run, or declares how it is run.

    Raises:
        SignatureError: The folder holds no package.
        UnsupportedPackageError: It holds one of a kind that is not supported.
        PolicyError: The policy is not for this level, or does not know a check.

    Example:
        >>> run_validation(Path("envs/catch_env"), max_level=Level.STATIC).verdict.value  # doctest: +SKIP
        'pass'
    """
    is_static = max_level is Level.STATIC
    policy = policy or load_policy("v1" if is_static else "v2")
    if not is_static and STARTUP not in policy.entries_for_lane(Lane.LOCAL):
        raise PolicyError("runtime validation requires policy v2; v1 supports --level static")
    if policy.policy_version == OWN_POLICY:
        return validate_folder(target, max_level)
    signature = detect_signature(target)
    parser = default_parser_registry().parser_for(signature)
    with TemporaryDirectory(prefix="openenv-validate-") as temporary:
        validation = _Validation(target, policy, max_level, artifacts_dir or Path(temporary))
        validation.grade(parser, None if skip_build else lambda: provider or default_provider())
        report = validation.report(signature)
    if artifacts_dir is not None:
        validation.write_bundle(artifacts_dir, report)
    return report


class _Validation:
    """Validation of a package, step by step.

    Attributes:
        run: The run of the package, once that was to begin.
    """

    def __init__(self, root: Path, policy: SeverityPolicy, max_level: Level, outputs_dir: Path) -> None:
        self.run: PackageRun | None = None
        self._root, self._policy, self._max_level, self._outputs_dir = root, policy, max_level, outputs_dir
        self._entries = {
            name: entry for name, entry in policy.entries_for_lane(Lane.LOCAL).items() if entry.level <= max_level
        }
        self._registry = default_grader_registry(policy)
        # By their checks' names.
        self._results: dict[str, CheckResult] = {}
        self._levels = {Level.STATIC}
        # Both set by ``grade``.
        self._digest = ""
        self._manifest: NormalizedManifest | None = None

    def grade(self, parser: Parser, get_provider: Callable[[], ValidationProvider] | None) -> None:
        """Read the package, and make all checks."""
        self._digest, self._manifest = self._read(parser)
        if self._manifest is None:
            self._skip((entry for entry in self._entries.values() if entry.level > Level.STATIC), NO_MANIFEST)
            return
        graders = self._registry.select(self._manifest, self._max_level)
        subject = Subject(self._root, self._manifest, None, None, self._outputs_dir)
        self._add(execute_graders([each for each in graders if each.level is Level.STATIC], subject))
        if self._max_level is Level.STATIC:
            return
        later = [each for each in graders if each.level > Level.STATIC]
        with PackageRun(self._root, self._manifest, get_provider) as self.run:
            self._grade_run(self.run, later, subject)
            if digest_if_readable(self._root) != self._digest:
                self.run.end_with(CheckStatus.ERROR, "package source changed during validation")
        if self.run.is_built:
            self._levels.add(Level.RUNTIME)
        self._add([self.run.result()])
        for grader in later:
            unmet = [name for name in grader.depends_on if not self._has_passed(name)]
            self._skip([grader] if unmet else [], f"unmet dependency: {', '.join(unmet)}")
        self._skip((entry for entry in self._entries.values() if self._is_left(entry)), NOT_IMPLEMENTED)

    def report(self, signature: SignatureKind) -> ValidationReport | ValidationReportV2:
        """Make the report."""
        order = list(self._policy.entries_for_lane(Lane.LOCAL))
        results = sorted(
            self._results.values(),
            key=lambda each: order.index(each.check_id) if each.check_id in order else len(order),
        )
        is_second = self._max_level is not Level.STATIC or isinstance(self._manifest, NormalizedManifestV2)
        return make_report(
            "2" if is_second else REPORT_SCHEMA_VERSION,
            target=str(self._root),
            source_digest=self._digest,
            signature=signature,
            manifest=self._manifest,
            policy=self._policy,
            levels_run=sorted(self._levels),
            results=results,
        )

    def write_bundle(self, folder: Path, report: ValidationReport | ValidationReportV2) -> None:
        """Write the report and the evidence that it is based on into a folder."""
        if self.run is None:
            write_runtime_bundle(folder, report, cleanup=NO_CLEANUP)
            return
        run = self.run
        write_runtime_bundle(
            folder, report, plan=run.plan, evidence=run.evidence, provider=run.provider, cleanup=run.cleanup
        )

    def _read(self, parser: Parser) -> tuple[str, NormalizedManifest | None]:
        """Return the digest and the manifest of the package; ``static.manifest`` has the reason if there is none."""
        start = time.perf_counter()
        digest, faults = (
            digest_if_readable(self._root),
            ManifestError(["package source could not be verified before validation"]),
        )
        if digest:
            try:
                return digest, parser.parse(self._root)
            except ManifestError as error:
                faults = error
        result = CheckResult(
            check_id=MANIFEST,
            status=CheckStatus.FAIL if digest else CheckStatus.ERROR,
            measured={"schema_errors": len(faults.errors)} if digest else {},
            evidence=faults.errors,
            remediation=faults.remediation,
            duration_s=time.perf_counter() - start,
        )
        self._add([result])
        return digest, None

    def _grade_run(self, run: PackageRun, graders: Sequence[Grader], subject: Subject) -> None:
        """Run the graders that do not depend on what did not pass."""
        if run.has_started:
            subject = replace(
                subject,
                image_ref=run.image_ref,
                running=run.running,
                runtime_evidence=run.evidence,
                network_evidence_json=run.network_evidence_json,
            )
        else:
            graders = [grader for grader in graders if STARTUP not in grader.depends_on]
        capabilities = run.provider.capabilities if run.provider else frozenset()
        prior = [*self._results.values(), *([run.result()] if run.has_started else [])]
        self._add(execute_graders(graders, subject, provider_capabilities=capabilities, prior=prior))
        self._levels |= {grader.level for grader in graders}

    def _add(self, results: Iterable[CheckResult]) -> None:
        self._results |= {result.check_id: result for result in results}

    def _skip(self, checks: Iterable[PolicyEntry | Grader], reason: str) -> None:
        """Add a result that was left out to those that have none."""
        for check in checks:
            if check.check_id not in self._results:
                self._add([skipped(check.check_id, reason)])

    def _has_passed(self, check_id: str) -> bool:
        return check_id in self._results and self._results[check_id].status is CheckStatus.PASS

    def _is_left(self, entry: PolicyEntry) -> bool:
        """Return whether a check concerns the package, and there is no grader for it."""
        assert self._manifest is not None
        concern = _CONCERNS.get(entry.check_id)
        is_concerned = concern is None or bool(getattr(self._manifest.capabilities, concern))
        return entry.level > Level.STATIC and is_concerned and self._registry.get(entry.check_id) is None
