"""``openenv validate``: check an environment's folder without running its code, or another world's environment."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from openenv.auto.discovery import find_environment
from openenv.auto.making import is_adapted
from openenv.core.exceptions import EnvironmentNotFoundError
from openenv.validation.adapted_checks import validate_adapted
from openenv.validation.report import CheckResult, Report, validate_folder

MARKS = {"pass": "[green]✓[/]", "warn": "[yellow]![/]", "fail": "[red]✗[/]"}
VERDICTS = {"pass": "[green]passed[/]", "warn": "[yellow]passed with warnings[/]", "fail": "[red]failed[/]"}
MAX_EVIDENCE = 10

Target = Annotated[str, typer.Argument(metavar="TARGET", help="Folder or name of an environment, or PREFIX:ID.")]
Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
Output = Annotated[Path | None, typer.Option(help="Write the report as JSON to this file too.")]


def validate(target: Target = ".", as_json: Json = False, output: Output = None) -> None:
    """Check an environment's folder without running any of its code.

    Another world's environment, PREFIX:ID, has no folder: it is made and reset instead.

    Ends with status 0 if no check failed, 1 if one did, 2 if the target is no environment's folder.
    """
    try:
        report = _report(target)
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


def _report(target: str) -> Report:
    folder = Path(target)
    if folder.is_dir():
        return validate_folder(folder)
    if is_adapted(target):
        return validate_adapted(target)
    return validate_folder(find_environment(target).folder)


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
