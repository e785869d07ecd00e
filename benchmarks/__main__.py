"""``python -m benchmarks``: measure, print the table, write it as JSON, Markdown and a picture."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.measure import FULL, QUICK, measure
from benchmarks.report import save_json, save_markdown, save_plot, table
from benchmarks.rows import results

# What the table needs to show every figure; a narrower terminal wraps the lines.
TABLE_WIDTH = 132
RESULTS = Path(__file__).resolve().parent / "results"


def main(
    quick: Annotated[bool, typer.Option("--quick", help="A look in half a minute; its figures are rough.")] = False,
    output: Annotated[Path, typer.Option(help="Folder for what comes out.")] = RESULTS,
) -> None:
    """Measure ours beside the public package and a bare echo server, and write what came out."""
    console = Console(width=max(Console().width, TABLE_WIDTH))
    samples = measure(QUICK if quick else FULL, report=lambda line: console.print(f"[dim]{line}"))
    measured = results(samples)
    console.print(table(measured))
    output.mkdir(parents=True, exist_ok=True)
    save_json(measured, samples, output / "benchmarks.json")
    save_markdown(measured, output / "benchmarks.md")
    save_plot(measured, output / "benchmarks.png")
    console.print(f"wrote benchmarks.json, .md and .png to {output}")


if __name__ == "__main__":
    typer.run(main)
