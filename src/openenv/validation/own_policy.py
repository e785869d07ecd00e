"""Validation by the policy of this package: of folders, with or without declarations, and of what has no folder."""

from collections.abc import Generator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from openenv.auto.manifest import MANIFEST_FILE
from openenv.core.documents import read_yaml
from openenv.core.exceptions import ConfigurationError
from openenv.validation.folder_checks import check_source
from openenv.validation.graders import GraderRegistry, Subject
from openenv.validation.manifest import ManifestError, NormalizedManifest
from openenv.validation.parsers.openenv_yaml import BLOCK, POLICY, OpenEnvYamlParser
from openenv.validation.policy import OWN_POLICY, PolicyEntry, SeverityPolicy, load_policy, make_report
from openenv.validation.report import CheckResult, ValidationReport
from openenv.validation.run_process import ProcessOptions, each_in_process
from openenv.validation.runtime.scheduler import execute_graders
from openenv.validation.source import Source, digest_if_readable, read_source
from openenv.validation.trials import RunLimits
from openenv.validation.types import CheckStatus, Lane, Level, Severity, SignatureKind

NEEDED_TO_RUN = ("static.manifest", "static.syntax")


def validate_folder(folder: Path, max_level: Level = Level.STATIC, limits: RunLimits | None = None) -> ValidationReport:
    """Check an environment's folder by the policy of this package, and run the environment above the static level.

    Args:
        folder: The folder that holds ``openenv.yaml``.
        max_level: The highest level of checks.
        limits: Limits of the run.

    Returns:
        The report. An environment whose manifest or code can't be read is not run.

    Raises:
        EnvironmentNotFoundError: There is no such folder, or it holds no ``openenv.yaml``.

    Example:
        >>> validate_folder(Path("envs/catch_env")).verdict.value  # doctest: +SKIP
        'pass'
    """
    source = read_source(folder)
    manifest = _declared(source.folder)
    each = each_folder_results(source, max_level, limits or RunLimits())
    results, levels = next(each), [Level.STATIC]
    run = [result for found in each for result in found]
    results += run
    levels += _levels_of_run(max_level) if run else []
    if manifest is not None:
        results += _results_of_others(source, manifest, max_level, results)
    return make_report(
        "1" if max_level is Level.STATIC else "2",
        target=str(source.folder),
        source_digest=digest_if_readable(source.folder),
        signature=SignatureKind.OPENENV_SERVED,
        manifest=manifest,
        policy=policy_with(results),
        levels_run=levels,
        results=results,
    )


def each_folder_results(
    source: Source, max_level: Level, limits: RunLimits, options: ProcessOptions | None = None
) -> Generator[list[CheckResult], None, None]:
    """Iterate over the results of this package's checks: those of the folder at once, then those of each run check.

    Args:
        source: The folder's files.
        max_level: The highest level of checks.
        limits: Limits of the run.
        options: Options of the process that runs the environment.
    """
    results = check_source(source)
    yield results
    has_failed = {result.check_id for result in results if result.status is CheckStatus.FAIL}
    if max_level > Level.STATIC and has_failed.isdisjoint(NEEDED_TO_RUN):
        yield from each_in_process(source.folder, limits, max_level, options)


def chosen_policy(folder: Path) -> str | None:
    """Return the policy that an environment's folder is checked by where no other is named.

    Args:
        folder: The folder.

    Returns:
        The policy of this package where ``openenv.yaml`` declares nothing for checks, or can't be read; else the one
        that the declarations name; ``None`` for the public ones where they name none.
    """
    try:
        content = read_yaml(folder / MANIFEST_FILE)
    except ConfigurationError:
        return OWN_POLICY
    block = content.get(BLOCK) if isinstance(content, dict) else None
    if block is None:
        return OWN_POLICY
    named = block.get(POLICY) if isinstance(block, dict) else None
    return None if named is None else str(named)


def report_of_run(target: str, results: list[CheckResult], max_level: Level = Level.RUNTIME) -> ValidationReport:
    """Make the report of what has no folder, and was only run.

    Args:
        target: The target.
        results: Results of its checks.
        max_level: The highest level of checks.
    """
    return make_report(
        "2",
        target=target,
        source_digest="",
        signature=None,
        manifest=None,
        policy=load_policy(OWN_POLICY),
        levels_run=_levels_of_run(max_level),
        results=results,
    )


def _levels_of_run(max_level: Level) -> list[Level]:
    return [level for level in (Level.RUNTIME, Level.SEMANTIC, Level.STATISTICAL) if level <= max_level]


def _declared(folder: Path) -> NormalizedManifest | None:
    try:
        return OpenEnvYamlParser().parse(folder)
    except ManifestError:  # which the check of the manifest reports, if there are declarations at all
        return None


def _results_of_others(
    source: Source, manifest: NormalizedManifest, max_level: Level, prior: Sequence[CheckResult]
) -> list[CheckResult]:
    """Run the graders of installed packages, but for those of checks that have a result."""
    registry = GraderRegistry()
    if not registry.load_entry_points():
        return []
    known = {result.check_id for result in prior}
    graders = [each for each in registry.select(manifest, max_level) if each.check_id not in known]
    with TemporaryDirectory(prefix="openenv-validate-") as outputs:
        return execute_graders(graders, Subject(source.folder, manifest, None, None, Path(outputs)), prior=prior)


def policy_with(results: Sequence[CheckResult]) -> SeverityPolicy:
    """Return the policy of this package; a check of another package that it does not know fails like any other."""
    policy = load_policy(OWN_POLICY)
    known = policy.entries_for_lane(Lane.LOCAL)
    others = [
        PolicyEntry(check_id=result.check_id, level=Level.STATIC, lane=Lane.LOCAL, severity=Severity.FAIL)
        for result in results
        if result.check_id not in known
    ]
    return policy.model_copy(update={"entries": [*policy.entries, *others]})
