"""``openenv validate``: check an environment's folder, and that the environment runs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape

from openenv.auto.discovery import find_environment, located
from openenv.auto.making import server_of
from openenv.auto.target import PLAYED, Target, TargetKind
from openenv.cli.groups import RefusalError
from openenv.cli.options import AsJson
from openenv.cli.targets import refusing
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError
from openenv.validation.adapted_checks import validate_adapted
from openenv.validation.folder_checks import CheckResult, Report, validate_folder
from openenv.validation.run_checks import LEVEL as RUNTIME
from openenv.validation.run_process import run_in_process
from openenv.validation.trials import RunLimits
from openenv.validation.url_checks import TIMEOUT_S, UrlReport, validate_url

MARKS = {"pass": "[green]✓[/]", "warn": "[yellow]![/]", "fail": "[red]✗[/]"}
VERDICTS = {"pass": "[green]passed[/]", "warn": "[yellow]passed with warnings[/]", "fail": "[red]failed[/]"}
MAX_EVIDENCE = 10
_NEEDED_TO_RUN = ("manifest", "syntax")

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
Level = Annotated[
    Literal["static", "runtime", "semantic"] | None,
    typer.Option(
        help="static runs nothing, as --no-run; the others run the environment.  [default: runtime]", hidden=True
    ),
]
SkipBuild = Annotated[bool, typer.Option("--skip-build", help="Has no effect: no image is built here.", hidden=True)]
Policy = Annotated[
    Literal["v1", "v2"] | None,
    typer.Option(help="Has no effect: each check decides whether its finding is an error or a warning.", hidden=True),
]
Local = Annotated[bool, typer.Option("--local", help="Read TARGET as no URL.", hidden=True)]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show every finding, and what was expected and found.")]
Run = Annotated[
    bool, typer.Option("--run/--no-run", help="Run the environment too: play episodes, twice, in two processes.")
]
Output = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as JSON to this file too.")]


def validate(
    target: Given = None,
    run: Run = True,
    url: Url = None,
    timeout_s: TimeoutS = None,
    level: Level = None,
    skip_build: SkipBuild = False,
    policy: Policy = None,
    local: Local = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """Check an environment: its folder, and the episodes that it plays, for which its code is run; or a running server.

    What has no folder, as PREFIX:ID or a file of Python, is only run. A server is only read.

    Ends with status 0 if no check failed, 1 if one did, 2 if the target is no environment and no server.
    """
    if url is not None and target is not None:
        raise ConfigurationError(
            f"Cannot combine a local path argument with --url: got {target} and {url}; leave one out."
        )
    if url is not None and local:
        raise ConfigurationError(f"--local checks a folder, and {url} is a server's address; leave one out.")
    limits = RunLimits(timeout_s or RunLimits.answer_s) if run and level != "static" else None
    try:
        if url is not None:
            report: Report | UrlReport = validate_url(url, timeout_s or TIMEOUT_S)
        else:
            report = _report_of(_read("." if target is None else target, limits, local=local), limits, timeout_s)
    except EnvironmentNotFoundError as error:
        raise RefusalError(str(error)) from error
    text = json.dumps(report.as_json(), indent=2, ensure_ascii=False)
    if output is not None:
        output.write_text(f"{text}\n", encoding="utf-8")
    if as_json:
        typer.echo(text)
    elif isinstance(report, UrlReport):
        _print_server(report, Console(highlight=False), verbose=verbose)
    else:
        _print(report, Console(highlight=False), verbose=verbose)
    has_failed = not report.passed if isinstance(report, UrlReport) else report.verdict == "fail"
    raise typer.Exit(1 if has_failed else 0)


def _read(given: str, limits: RunLimits | None, *, local: bool) -> Target:
    """Read the target; a folder is a folder, whether there is an environment of its name or not."""
    with refusing():
        is_folder = bool(given) and Path(given).is_dir()
        target = Target.of(Path(given) if is_folder else given).required(PLAYED, "`openenv validate`")
        target = located(target, trusted=limits is None)
    if target.kind is TargetKind.ADDRESS and local:
        raise ConfigurationError(f"--local checks a folder, and {given} is a server's address; leave one out.")
    return target


def _report_of(target: Target, limits: RunLimits | None, timeout_s: float | None) -> Report | UrlReport:
    """Check a server, or an environment, which is run where there are limits for that."""
    if target.kind is TargetKind.ADDRESS:
        report = validate_url(target.text, timeout_s or TIMEOUT_S)
        if not report.answered:
            raise EnvironmentNotFoundError(f"No server answers at {target.text}. Start it, or correct the address.")
        return report
    if target.kind in (TargetKind.NAME, TargetKind.FOLDER):
        folder = find_environment(target).folder if target.kind is TargetKind.NAME else Path(target.text)
        static = validate_folder(folder)
        return static if limits is None or not _can_be_read(static) else _with_run(static, limits)
    package = find_environment(target) if target.kind is TargetKind.FILE else None
    if limits is None:
        raise typer.BadParameter(f"--no-run leaves the checks of a folder, and {target.text} has none.")
    if package is not None:
        return Report(str(target), "", {}, run_in_process(str(target), limits), (RUNTIME,))
    if target.kind is TargetKind.ADAPTED:
        return validate_adapted(target.text)
    server = server_of(target)
    try:
        return validate_url(server.launch(), timeout_s or TIMEOUT_S, server.token)
    finally:
        server.shut_down()


def _can_be_read(report: Report) -> bool:
    """Return whether manifest and code can be read; else a run would only repeat the errors."""
    return all(result.status != "fail" for result in report.results if result.check_id in _NEEDED_TO_RUN)


def _with_run(report: Report, limits: RunLimits) -> Report:
    """Run the environment of a report, and add the findings."""
    results = run_in_process(Path(report.target), limits)
    return replace(report, results=[*report.results, *results], levels=(*report.levels, RUNTIME))


def _print(report: Report, console: Console, *, verbose: bool) -> None:
    for result in report.results:
        console.print(f"{MARKS[result.status]} [bold]{result.check_id:<12}[/] {escape(result.measured)}")
        _print_findings(result, console, len(result.evidence) if verbose else MAX_EVIDENCE)
    console.print(f"\n{escape(report.target)}: {VERDICTS[report.verdict]}")


def _print_findings(result: CheckResult, console: Console, limit: int) -> None:
    for text in result.evidence[:limit]:
        console.print(f"    {escape(text)}")
    if len(result.evidence) > limit:
        console.print(f"    and {len(result.evidence) - limit} more; --verbose lists all")
    for remedy in result.remediation:
        console.print(f"    [dim]→ {escape(remedy)}[/]")


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
