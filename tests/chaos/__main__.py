"""``python -m tests.chaos``: make havoc, and print a line of counts for each scenario."""

import sys
import time
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import pytest
import typer
from tests.chaos.effort import FULL, SMALL, Effort
from tests.chaos.scenarios import SCENARIOS


def main(
    small: Annotated[bool, typer.Option("--small", help="The size that runs among the tests.")] = False,
    seed: Annotated[int, typer.Option(help="What every random choice derives from.")] = FULL.seed,
    only: Annotated[list[str] | None, typer.Option(metavar="SCENARIO", help="May be given several times.")] = None,
) -> None:
    """Try every promise of reliability on real sockets, processes and clocks."""
    effort = (SMALL if small else FULL).with_seed(seed)
    chosen = only or list(SCENARIOS)
    for name in chosen:
        if name not in SCENARIOS:
            raise typer.BadParameter(f"expected one of {', '.join(SCENARIOS)}; got {name!r}", param_hint="--only")
    typer.echo(f"seed {seed}")
    failed = [name for name in chosen if not _went_well(name, effort)]
    if failed:
        typer.echo(f"failed with seed {seed}: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


def _went_well(name: str, effort: Effort) -> bool:
    started = time.monotonic()
    with TemporaryDirectory(prefix="openenv-chaos-") as folder:
        try:
            told = SCENARIOS[name](effort, Path(folder))
        except pytest.skip.Exception as skipped:
            told = f"left out: {skipped}"
        except Exception:  # noqa: BLE001  # the other scenarios are to run all the same
            traceback.print_exc(file=sys.stderr)
            told = "FAILED"
    typer.echo(f"{name}: {told} ({time.monotonic() - started:.0f} s)")
    return told != "FAILED"


if __name__ == "__main__":
    typer.run(main)
