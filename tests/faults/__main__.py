"""``python -m tests.faults``: put each fault into a copy of the tree, and see whether its test fails."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from tests.faults.running import FOLDER, ROOT, Fault, Result, TreeCopy, load_faults, try_fault
from tests.support.nearest import mirrored


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Faults to try; all if none.")] = None,
    nearest: Annotated[
        bool, typer.Option("--nearest", help="Run the tests nearest to the module, and list each that fails.")
    ] = False,
    tree: Annotated[Path, typer.Option(help="The tree that is copied.")] = ROOT,
    folder: Annotated[Path, typer.Option(help="Folder of the table and the patches.")] = FOLDER,
) -> None:
    """Try faults; the exit status is 1 if no test catches one of them."""
    faults = _chosen(load_faults(folder), names or [])
    width = max(len(fault.name) for fault in faults)
    uncaught = []
    with TemporaryDirectory(prefix="openenv-faults-") as temporary:
        copy = TreeCopy(tree, Path(temporary) / "tree")
        for fault in faults:
            result = try_fault(fault, copy, str(mirrored(Path(fault.module), tree)) if nearest else fault.test)
            _show(result, width)
            if not result.caught_by:
                uncaught.append(fault.name)
    typer.echo(f"{len(faults) - len(uncaught)} of {len(faults)} faults caught")
    if uncaught:
        typer.echo(f"not caught: {', '.join(uncaught)}", err=True)
        sys.exit(1)


def _chosen(faults: list[Fault], names: list[str]) -> list[Fault]:
    known = {fault.name: fault for fault in faults}
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"expected one of {', '.join(known)}; got {name!r}", param_hint="NAME")
    return [known[name] for name in names] if names else faults


def _show(result: Result, width: int) -> None:
    fault = result.fault
    first, *others = result.caught_by or [f"NOT CAUGHT: {result.problem}"]
    typer.echo(f"{fault.name:<{width}}  {fault.module.removeprefix('src/openenv/')}  {first}  {result.seconds:.0f} s")
    for other in others:
        typer.echo(f"{'':<{width}}  {other}")


if __name__ == "__main__":
    typer.run(main)
