"""``python -m benchmarks``: measure, print the table, write it as JSON, Markdown and pictures."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.effort import FULL, QUICK
from benchmarks.measure import measure
from benchmarks.report import save_growth_plot, save_json, save_markdown, save_plot, table
from benchmarks.rows import ROWS, results

# What the table needs to show every figure; a narrower terminal wraps the lines.
TABLE_WIDTH = 148
# Other work that wants so many cores on average takes caches and time from what is measured.
BUSY_LOAD = 0.5
RESULTS = Path(__file__).resolve().parent / "results"

# Takes a minute, and does not depend on the machine.
_NOT_IN_A_QUICK_RUN = "installed_size"


def main(
    quick: Annotated[bool, typer.Option("--quick", help="A look in a minute; its figures are rough.")] = False,
    only: Annotated[list[str] | None, typer.Option(metavar="ROW", help="Measure this row; may be repeated.")] = None,
    output: Annotated[Path, typer.Option(help="Folder for what comes out.")] = RESULTS,
) -> None:
    """Measure ours beside the public package, a bare echo server and Gymnasium, and write what came out."""
    rows = _rows(only, quick)
    console = Console(width=max(Console().width, TABLE_WIDTH))
    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        console.print(f"[yellow]This machine is busy (load {load:.1f}): servers will look slower than they are.")
    samples = measure(QUICK if quick else FULL, rows, report=lambda line: console.print(f"[dim]{line}"))
    measured = [result for result in results(samples) if result.key in rows]
    console.print(table(measured, samples))
    output.mkdir(parents=True, exist_ok=True)
    save_json(measured, samples, load, output / "benchmarks.json")
    save_markdown(measured, output / "benchmarks.md")
    save_plot(measured, output / "benchmarks.png")
    save_growth_plot(samples, output / "growth.png")
    console.print(f"wrote what came out to {output}")


def _rows(only: list[str] | None, quick: bool) -> list[str]:
    for row in only or []:
        if row not in ROWS:
            raise typer.BadParameter(f"expected one of {', '.join(ROWS)}; got {row!r}", param_hint="--only")
    return only or [row for row in ROWS if not (quick and row == _NOT_IN_A_QUICK_RUN)]


if __name__ == "__main__":
    typer.run(main)
