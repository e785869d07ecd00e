"""``openenv validate``: check an environment's folder, and that the environment runs."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import current_thread, main_thread
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from openenv.auto.discovery import find_environment, located
from openenv.auto.making import server_of
from openenv.auto.manifest import MANIFEST_FILE
from openenv.auto.target import PLAYED, Target, TargetKind
from openenv.cli.groups import RefusalError
from openenv.cli.options import AsJson
from openenv.cli.targets import refusing
from openenv.cli.views.mutants import print_mutants, print_result
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError
from openenv.validation.adapted_checks import validate_adapted
from openenv.validation.mutants.outcomes import DEFAULT_COUNT, MAX_JOBS, MutantsReport, try_mutants
from openenv.validation.own_policy import chosen_policy, report_of_run, validate_folder
from openenv.validation.policy import OWN_POLICY, PolicyError, SeverityPolicy, load_policy
from openenv.validation.report import CheckResult, ValidationReport, write_report
from openenv.validation.run_process import run_in_process
from openenv.validation.runner import run_validation
from openenv.validation.runtime.artifacts import write_runtime_bundle
from openenv.validation.signature import SignatureError, UnsupportedPackageError, detect_signature
from openenv.validation.statistical.figures import figure_text
from openenv.validation.trials import RunLimits
from openenv.validation.types import CheckStatus, Lane, Level, Severity, Verdict
from openenv.validation.url_checks import TIMEOUT_S, UrlReport, validate_url

EXIT_PASS, EXIT_FAIL, EXIT_UNSUPPORTED, EXIT_INTERNAL = range(4)
MARKS = {"pass": "[green]✓[/]", "fail": "[red]✗[/]"}
VERDICTS = {"pass": "[green]passed[/]", "fail": "[red]failed[/]"}
COLORS = {"PASS": "green", "WARN": "yellow", "SKIP": "dim", "FAIL": "red", "ERROR": "red"}
MAX_EVIDENCE = 10
Report = ValidationReport | UrlReport
LEVELS = {level.name.lower(): level for level in Level}

Given = Annotated[
    str | None,
    typer.Argument(
        metavar="TARGET",
        help="Folder, file or name of an environment, PREFIX:ID, a server's URL, a Space, or docker:IMAGE.  [default: "
        "this folder]",
        show_default=False,
    ),
]
Url = Annotated[
    str | None, typer.Option(metavar="URL", help="Check a running server by its routes, instead of a folder.")
]
TimeoutS = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0.1,
        help=f"Seconds that a server may take to answer.  [default: {TIMEOUT_S:g}; {RunLimits.answer_s:g} for an "
        "environment that is run]",
        show_default=False,
    ),
]
LevelName = Annotated[
    str,
    typer.Option(
        "--level",
        metavar="LEVEL",
        help="Highest level of checks: static runs nothing, runtime plays episodes, semantic judges tasks and rewards, "
        "statistical compares players over many episodes, and trains.",
    ),
]
SkipBuild = Annotated[bool, typer.Option("--skip-build", help="With the policies v1 and v2: build and run nothing.")]
Policy = Annotated[
    str | None,
    typer.Option(
        metavar="POLICY",
        help=f"Policy with the checks and the weight of each: {OWN_POLICY}, v1 or v2.  [default: "
        f"{OWN_POLICY}; v2 for a folder whose openenv.yaml has `validation:`, v1 at the level static]",
        show_default=False,
    ),
]
LearningSteps = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="At the level statistical: optimiser steps of each training of the tiny policy; 0 leaves it out.",
    ),
]
Local = Annotated[bool, typer.Option("--local", help="Read TARGET as no URL.", hidden=True)]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show every finding, and what was expected and found.")]
Run = Annotated[bool, typer.Option("--run/--no-run", help="Run the environment too; --no-run is --level static.")]
_MUTANTS = "Mutants"

Mutants = Annotated[
    bool,
    typer.Option(
        "--mutants",
        rich_help_panel=_MUTANTS,
        help="Plant faults in copies of the folder's code, validate each by the policy openenv-v1, and list those that "
        "no check finds.",
    ),
]
MaxMutants = Annotated[
    int, typer.Option("--max-mutants", metavar="N", min=1, rich_help_panel=_MUTANTS, help="Faults that are planted.")
]
Seed = Annotated[
    int, typer.Option(metavar="N", rich_help_panel=_MUTANTS, help="Seed that determines which faults are planted.")
]
Jobs = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        rich_help_panel=_MUTANTS,
        help=f"Copies that are validated at once.  [default: one for each CPU, {MAX_JOBS} at most]",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the report as JSON to this file too, and its evidence to FILE's folder."),
]


def validate(
    target: Given = None,
    run: Run = True,
    url: Url = None,
    timeout_s: TimeoutS = None,
    level: LevelName = "semantic",
    skip_build: SkipBuild = False,
    policy: Policy = None,
    learning_steps: LearningSteps = RunLimits.learning_steps,
    local: Local = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    output: Output = None,
    mutants: Mutants = False,
    max_mutants: MaxMutants = DEFAULT_COUNT,
    seed: Seed = 0,
    jobs: Jobs = None,
) -> None:
    """Check an environment: its folder, and the episodes that it plays, for which its code is run; or a running server.

    What has no folder, as PREFIX:ID or a file of Python, is only run. A server is only read. With --mutants, faults are
    planted in copies of the folder, to see how much it is worth that an environment passes.

    Ends with status 0 if no check failed, 1 if one did, 2 if the target is no environment and no server, 3 if the
    checks could not be made, as for a policy that does not exist.
    """
    if level not in LEVELS:
        typer.echo(f"Error: unknown level {level!r}; expected one of {sorted(LEVELS)}", err=True)
        raise typer.Exit(EXIT_INTERNAL)
    address = _address(target, url, local=local)
    try:
        if output is not None and not output.parent.is_dir():
            raise PolicyError(f"report output directory does not exist: there is no folder {output.parent}")
        with _interrupted_by_sigterm():
            if address is not None and mutants:
                raise ConfigurationError(f"--mutants is for folders with openenv.yaml, and {address} is a server.")
            if address is not None:
                report: Report = _server_report(address, timeout_s, must_answer=url is None)
            else:
                max_level = LEVELS[level] if run else Level.STATIC
                validation = _Validation(max_level, skip_build, policy, timeout_s, learning_steps, local, output)
                if mutants:
                    planted = validation.mutants("." if target is None else target, max_mutants, seed, jobs, as_json)
                    _show_mutants(planted, output, as_json=as_json)
                    return
                report = validation.report("." if target is None else target)
    except (EnvironmentNotFoundError, SignatureError, UnsupportedPackageError) as error:
        raise RefusalError(str(error)) from error
    except PolicyError as error:
        typer.echo(f"Internal error: {error}", err=True)
        raise typer.Exit(EXIT_INTERNAL) from error
    _show(report, output, as_json=as_json, verbose=verbose)


def _show(report: Report, output: Path | None, *, as_json: bool, verbose: bool) -> None:
    """Write and print a report, and end the command with its status."""
    if isinstance(report, UrlReport):
        text, has_failed = json.dumps(report.as_json(), indent=2, ensure_ascii=False), not report.passed
    else:
        text, has_failed = write_report(report), report.verdict is Verdict.FAIL
    if output is not None:
        output.write_text(f"{text}\n", encoding="utf-8")
    if as_json:
        typer.echo(text)
    elif isinstance(report, UrlReport):
        _print_server(report, Console(highlight=False), verbose=verbose)
    else:
        _print(report, Console(highlight=False, soft_wrap=True), verbose=verbose)
    raise typer.Exit(EXIT_FAIL if has_failed else EXIT_PASS)


def _show_mutants(report: MutantsReport, output: Path | None, *, as_json: bool) -> None:
    """Write and print the report of an environment's mutants."""
    text = json.dumps(report.as_json(), indent=2, ensure_ascii=False)
    if output is not None:
        output.write_text(f"{text}\n", encoding="utf-8")
    if as_json:
        typer.echo(text)
    else:
        print_mutants(report, Console(highlight=False, soft_wrap=True))


def _address(target: str | None, url: str | None, *, local: bool) -> str | None:
    """Return the address of a server that is to be checked, if the command line has one."""
    given = target if target is not None and target.startswith(("http://", "https://")) else None
    if url is not None and target is not None and given is None:
        raise ConfigurationError(
            f"Cannot combine a local path argument with --url runtime validation: got {target} and {url}; leave one "
            "out."
        )
    if url is not None and given not in (None, url):
        raise ConfigurationError(
            f"Conflicting runtime targets provided via argument and --url: {given} and {url}; leave one out."
        )
    address = url or given
    if address is not None and local:
        raise _local_refused(address)
    return address


def _local_refused(address: str) -> ConfigurationError:
    return ConfigurationError(
        f"--local cannot be combined with a running URL: --local checks a folder, and {address} is a server's "
        "address; leave one out."
    )


def _server_report(address: str, timeout_s: float | None, *, must_answer: bool) -> UrlReport:
    report = validate_url(address, timeout_s or TIMEOUT_S)
    if must_answer and not report.answered:
        raise EnvironmentNotFoundError(f"No server answers at {address}. Start it, or correct the address.")
    return report


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM act as Ctrl-C, after which all that was started is ended."""
    if current_thread() is not main_thread():  # in a program, where signals are not the command's
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass(frozen=True)
class _Validation:
    """Validation that the command line describes, by its options."""

    max_level: Level
    skip_build: bool
    policy: str | None
    timeout_s: float | None
    learning_steps: int
    local: bool
    output: Path | None

    @property
    def limits(self) -> RunLimits:
        """Limits of a run."""
        return RunLimits(self.timeout_s or RunLimits.answer_s, learning_steps=self.learning_steps)

    @property
    def bundle(self) -> Path | None:
        """Folder of the evidence, beside the file of the report."""
        return None if self.output is None else self.output.with_name(f"{self.output.stem}.artifacts")

    def report(self, given: str) -> Report:
        """Check a target."""
        target = self._read(given)
        if target.kind is TargetKind.ADDRESS:
            if self.local:
                raise _local_refused(target.text)
            return _server_report(target.text, self.timeout_s, must_answer=True)
        if target.kind in (TargetKind.NAME, TargetKind.FOLDER):
            is_name = target.kind is TargetKind.NAME
            return self._folder_report(find_environment(target).folder if is_name else Path(target.text))
        if target.kind is TargetKind.FILE:
            find_environment(target)
        if self.policy not in (None, OWN_POLICY):
            raise ConfigurationError(f"--policy {self.policy} is for folders, and {target.text} is none.")
        if self.max_level is Level.STATIC:
            raise typer.BadParameter(f"--no-run leaves the checks of a folder, and {target.text} has none.")
        return self._run_report(target)

    def mutants(self, given: str, count: int, seed: int, jobs: int | None, is_quiet: bool) -> MutantsReport:
        """Plant faults in copies of a folder, and validate these."""
        target = self._read(given)
        if target.kind not in (TargetKind.NAME, TargetKind.FOLDER):
            raise ConfigurationError(f"--mutants is for folders with openenv.yaml, and {target.text} is none.")
        if self.policy not in (None, OWN_POLICY):
            raise ConfigurationError(f"--mutants validates by the policy {OWN_POLICY}; leave --policy out.")
        is_name = target.kind is TargetKind.NAME
        folder = find_environment(target).folder if is_name else Path(target.text)
        console = Console(highlight=False, soft_wrap=True, stderr=True)
        return try_mutants(
            folder,
            level=self.max_level,
            limits=self.limits,
            count=count,
            seed=seed,
            jobs=jobs,
            show=None if is_quiet else partial(print_result, console=console),
        )

    def _read(self, given: str) -> Target:
        """Read the target; a folder is a folder, whether there is an environment of its name or not."""
        with refusing():
            is_folder = bool(given) and Path(given).is_dir()
            target = Target.of(Path(given) if is_folder else given).required(PLAYED, "`openenv validate`")
            return located(target, trusted=self.max_level is Level.STATIC)

    def _folder_report(self, folder: Path) -> ValidationReport:
        if not folder.is_dir():
            raise EnvironmentNotFoundError(
                f"not a package directory: {folder}. There is no folder of that name; give the folder that holds "
                f"{MANIFEST_FILE}."
            )
        if not (folder / MANIFEST_FILE).is_file():
            detect_signature(folder)  # which says what is wrong
        name = self.policy or chosen_policy(folder)
        if name == OWN_POLICY:
            report = validate_folder(folder, self.max_level, self.limits)
            if self.bundle is not None:
                write_runtime_bundle(self.bundle, report)
            return report
        return run_validation(
            folder,
            max_level=self.max_level,
            skip_build=self.skip_build,
            policy=None if name is None else load_policy(name),
            artifacts_dir=self.bundle,
        )

    def _run_report(self, target: Target) -> Report:
        """Check what has no folder: a file, another library's environment, a Space or an image."""
        if target.kind is TargetKind.FILE:
            return report_of_run(str(target), run_in_process(str(target), self.limits, self.max_level))
        if target.kind is TargetKind.ADAPTED:
            return validate_adapted(target.text)
        server = server_of(target)
        try:
            return validate_url(server.launch(), self.timeout_s or TIMEOUT_S, server.token)
        finally:
            server.shut_down()


def _print(report: ValidationReport, console: Console, *, verbose: bool) -> None:
    signature = "none" if report.signature is None else report.signature.value
    levels = ", ".join(level.name.lower() for level in report.levels_run)
    console.print(f"Validation report for {escape(report.target)} (signature: {signature})")
    console.print(f"  policy {report.policy_version} · levels run: {levels}")
    policy = load_policy(report.policy_version)
    for result in report.results:
        word = _word(result, policy)
        subject = escape(str(result.measured.get("subject", "")))
        line = f"  [{COLORS[word]}]{word:<5}[/] {result.check_id} ({result.duration_s:.2f}s)  {subject}"
        console.print(line.rstrip())
        if figures := _figures(result):
            console.print(f"          {figures}", style="dim")
        if result.status is not CheckStatus.PASS:
            _print_evidence(result, console, len(result.evidence) if verbose else MAX_EVIDENCE)
    word = report.verdict.name
    console.print(f"Verdict: [{COLORS[word]}]{word}[/]")


def _figures(result: CheckResult) -> str:
    """Return the figures of a statistical check in one line, without those that are lists of others."""
    if not result.check_id.startswith(Level.STATISTICAL.name.lower()):
        return ""
    shown = {name: figure_text(value) for name, value in result.measured.items() if name not in ("subject", "findings")}
    return ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in shown.items() if text)


def _word(result: CheckResult, policy: SeverityPolicy) -> str:
    """Return the word for a result: its status, but ``WARN`` for a failure that fails nothing."""
    entry = policy.entries_for_lane(Lane.LOCAL).get(result.check_id)
    is_warning = result.status is CheckStatus.FAIL and entry is not None and entry.severity is not Severity.FAIL
    return "WARN" if is_warning else result.status.name


def _print_evidence(result: CheckResult, console: Console, limit: int) -> None:
    for text in result.evidence[:limit]:
        console.print(f"          {escape(text)}")
    if len(result.evidence) > limit:
        console.print(f"          and {len(result.evidence) - limit} more; --verbose lists all")
    for remedy in (result.remediation or "").splitlines():
        console.print(f"          remediation: {escape(remedy)}")


def _print_server(report: UrlReport, console: Console, *, verbose: bool) -> None:
    for criterion in report.criteria:
        mark = MARKS["pass" if criterion.passed else "fail"]
        console.print(f"{mark} [bold]{criterion.id:<26}[/] {escape(criterion.description)}")
        if verbose or not criterion.passed:
            console.print(f"    expected {escape(json.dumps(criterion.expected))}")
            console.print(f"    found    {escape(json.dumps(criterion.actual))}")
    verdict = VERDICTS["pass" if report.passed else "fail"]
    mode = "mode unknown" if report.mode == "unknown" else f"in {report.mode} mode"
    console.print(f"\n{escape(report.target)}, {mode}: {verdict}")
