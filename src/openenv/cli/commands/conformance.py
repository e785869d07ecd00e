"""``openenv conformance``: check a running server, of any make, against the wires as they are documented."""

import json
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from openenv.cli.groups import RefusalError
from openenv.cli.options import AsJson
from openenv.core.exceptions import EnvironmentNotFoundError
from openenv.validation.conformance.suite import PARTS, TIMEOUT_S, WirePart, check_conformance
from openenv.validation.report import CheckResult
from openenv.validation.types import CheckStatus

_MARKS = {
    CheckStatus.PASS: "[green]✓[/]",
    CheckStatus.FAIL: "[red]✗[/]",
    CheckStatus.SKIP: "[dim]-[/]",
    CheckStatus.ERROR: "[red]✗[/]",
}
_NAMES = [part.name for part in PARTS]

Url = Annotated[str, typer.Argument(metavar="URL", help="Address of the server, which is reset and stepped.")]
Parts = Annotated[
    list[str] | None,
    typer.Option("--part", metavar="PART", help=f"Only this part: {', '.join(_NAMES)}; may be given again."),
]
TimeoutS = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds that an answer may take.")]


def conformance(url: Url, parts: Parts = None, timeout_s: TimeoutS = TIMEOUT_S, as_json: AsJson = False) -> None:
    """Check a running server, of any make, against the wires as they are documented.

    Each check has the sentence of the wire's page, what was sent, and what came. What a server does not offer, as the
    wire v1 or tasks, is left out. Ends with status 1 if a check failed.
    """
    unknown = sorted(set(parts or ()) - set(_NAMES))
    if unknown:
        raise typer.BadParameter(f"expected {', '.join(_NAMES)}; got {', '.join(unknown)}", param_hint="--part")
    try:
        found = list(check_conformance(url, parts=parts or None, timeout_s=timeout_s))
    except EnvironmentNotFoundError as error:
        raise RefusalError(str(error)) from error
    if as_json:
        lines = [{"part": part.name, "page": part.page, **result.model_dump(mode="json")} for part, result in found]
        typer.echo(json.dumps({"target": url, "results": lines}, indent=2, ensure_ascii=False))
    else:
        _print(found)
    if any(result.status is CheckStatus.FAIL for _, result in found):
        raise typer.Exit(1)


def _print(found: Sequence[tuple[WirePart, CheckResult]]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    shown = ""
    for part, result in found:
        if part.name != shown:
            console.print(f"[bold]{part.name}[/] [dim]{part.page}[/]")
            shown = part.name
        console.print(f"  {_MARKS[result.status]} {result.check_id:<22} {escape(str(result.measured['subject']))}")
        for line in result.evidence:
            console.print(f"      {escape(line)}")
    counts = [f"{sum(each.status is status for _, each in found)} {status.value}" for status in CheckStatus]
    console.print(f"\n{', '.join(counts[:3])}", style="bold")
