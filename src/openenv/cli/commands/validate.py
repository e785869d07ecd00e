"""``openenv validate``: check an environment's folder, and that the environment runs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from openenv.auto.discovery import find_environment
from openenv.auto.files import is_file
from openenv.auto.making import is_adapted
from openenv.cli.options import AsJson
from openenv.core.exceptions import EnvironmentNotFoundError
from openenv.validation.adapted_checks import validate_adapted
from openenv.validation.report import CheckResult, Report, validate_folder
from openenv.validation.run_checks import LEVEL as RUNTIME
from openenv.validation.run_checks import run_checks

MARKS = {"pass": "[green]✓[/]", "warn": "[yellow]![/]", "fail": "[red]✗[/]"}
VERDICTS = {"pass": "[green]passed[/]", "warn": "[yellow]passed with warnings[/]", "fail": "[red]failed[/]"}
MAX_EVIDENCE = 10
_NEEDED_TO_RUN = ("manifest", "syntax")

Target = Annotated[str, typer.Argument(metavar="TARGET", help="Folder, file or name of an environment, or PREFIX:ID.")]
Run = Annotated[bool, typer.Option("--run/--no-run", help="Start the environment too, and reset it.")]
Output = Annotated[Path | None, typer.Option(help="Write the report as JSON to this file too.")]


def validate(target: Target = ".", run: Run = True, as_json: AsJson = False, output: Output = None) -> None:
    """Check an environment: its folder, and that it starts and resets, for which its code is run.

    What has no folder, as PREFIX:ID or a file of Python, is only run.

    Ends with status 0 if no check failed, 1 if one did, 2 if the target is no environment's folder.
    """
    try:
        report = _report(target, run=run)
    except EnvironmentNotFoundError as error:
        raise typer.BadParameter(str(error)) from error
    text = json.dumps(report.as_json(), indent=2, ensure_ascii=False)
    if output is not None:
        output.write_text(f"{text}\n", encoding="utf-8")
    if as_json:
        typer.echo(text)
    else:
        _print(report, Console(highlight=False))
    raise typer.Exit(1 if report.verdict == "fail" else 0)


def _report(target: str, *, run: bool) -> Report:
    has_folder = Path(target).is_dir() or not (is_adapted(target) or is_file(target))
    if not (run or has_folder):
        raise typer.BadParameter(f"--no-run leaves the checks of a folder, and {target} has none.")
    if is_adapted(target) and not has_folder:
        return validate_adapted(target)
    if not has_folder:
        return Report(target, "", {}, run_checks(find_environment(target)), (RUNTIME,))
    report = validate_folder(Path(target) if Path(target).is_dir() else find_environment(target).folder)
    return _with_run(report) if run and _can_be_read(report) else report


def _can_be_read(report: Report) -> bool:
    """Whether manifest and code can be read; else a run would only say so again."""
    return all(result.status != "fail" for result in report.results if result.check_id in _NEEDED_TO_RUN)


def _with_run(report: Report) -> Report:
    """Run what a report is of, and add what was found."""
    results = run_checks(find_environment(Path(report.target)))
    return replace(report, results=[*report.results, *results], levels=(*report.levels, RUNTIME))


def _print(report: Report, console: Console) -> None:
    for result in report.results:
        console.print(f"{MARKS[result.status]} [bold]{result.check_id:<12}[/] {escape(result.measured)}")
        _print_findings(result, console)
    console.print(f"\n{escape(report.target)}: {VERDICTS[report.verdict]}")


def _print_findings(result: CheckResult, console: Console) -> None:
    for text in result.evidence[:MAX_EVIDENCE]:
        console.print(f"    {escape(text)}")
    if len(result.evidence) > MAX_EVIDENCE:
        console.print(f"    and {len(result.evidence) - MAX_EVIDENCE} more; --json lists all")
    for remedy in result.remediation:
        console.print(f"    [dim]→ {escape(remedy)}[/]")
