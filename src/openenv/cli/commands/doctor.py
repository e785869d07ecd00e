"""``openenv doctor``: abilities of this machine, and the commands that add those that it lacks."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from openenv.auto.discovery import find_environment
from openenv.auto.package import EnvironmentPackage
from openenv.auto.target import PACKAGED
from openenv.cli.options import AsJson, environment_argument
from openenv.cli.targets import read_target
from openenv.doctor.checkup import examine, first_missing, probes
from openenv.doctor.finding import Finding, Status
from openenv.doctor.needs import probes_for

_MARKS = {
    Status.READY: Text("✓", style="bold green"),
    Status.MISSING: Text("✗", style="bold red"),
    Status.UNSURE: Text("?", style="bold yellow"),
}
_EXTRA = "extra "


def doctor(
    environment: Annotated[str | None, environment_argument("Check only what this environment needs.")] = None,
    as_json: AsJson = False,
) -> None:
    """List what this machine can do, and the commands that add what it lacks."""
    wanted = probes() if environment is None else probes_for(_package(environment))
    found = examine(wanted)
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in found], indent=2, ensure_ascii=False))
    else:
        _print(found, environment)
    if environment is not None and first_missing(found) is not None:
        raise typer.Exit(1)


def _package(environment: str) -> EnvironmentPackage:
    return find_environment(read_target(environment, "doctor", PACKAGED, imports=False))


def _print(found: Sequence[Finding], environment: str | None) -> None:
    console = Console(highlight=False)
    extras = [finding for finding in found if finding.name.startswith(_EXTRA)]
    others = [finding for finding in found if finding not in extras]
    _print_group(console, "This machine" if environment is None else f"What {environment} needs", others)
    _print_group(console, "Extras of OpenEnv", extras)
    lacking = first_missing(found)
    if environment is not None:
        console.print("\nSomething is missing." if lacking else "\nNothing is missing.", style="bold")


def _print_group(console: Console, title: str, findings: Sequence[Finding]) -> None:
    if not findings:
        return
    table = Table("", "", "", box=None, pad_edge=False, show_header=False)
    for finding in findings:
        about = Text(finding.detail, overflow="fold")
        if finding.used_for and finding.status is not Status.READY:
            about.append(f"\nfor {finding.used_for}", style="dim")
        if finding.remedy:
            about.append(f"\n{finding.remedy}", style="cyan")
        table.add_row(_MARKS[finding.status], Text(finding.name.removeprefix(_EXTRA), style="bold"), about)
    console.print(f"\n[bold]{title}[/]")
    console.print(table)
