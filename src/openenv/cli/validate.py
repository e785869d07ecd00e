"""``openenv validate``: check an environment's folder without running any of its code."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from openenv.auto.discovery import find_environment
from openenv.core.exceptions import EnvironmentNotFoundError
from openenv.validation.report import CheckResult, Report, validate_folder

MARKS = {"pass": "[green]✓[/]", "warn": "[yellow]![/]", "fail": "[red]✗[/]"}
VERDICTS = {"pass": "[green]passed[/]", "warn": "[yellow]passed with warnings[/]", "fail": "[red]failed[/]"}
MAX_EVIDENCE = 10

Target = Annotated[str, typer.Argument(metavar="TARGET", help="Folder or name of an environment.")]
Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
Output = Annotated[Path | None, typer.Option(help="Write the report as JSON to this file too.")]


def validate(target: Target = ".", as_json: Json = False, output: Output = None) -> None:
    """Check an environment's folder without running any of its code.

    Ends with status 0 if no check failed, 1 if one did, 2 if the target is no environment's folder.
    """
    try:
        folder = Path(target)
        report = validate_folder(folder if folder.is_dir() else find_environment(target).folder)
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
