"""``python -m tests.goldens [NAME ...]``: record goldens, all or some, and print what differs from before."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from tests.goldens.golden import differences, file_of, store, stored
from tests.goldens.table import GOLDENS

_MOST_SHOWN = 20


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Goldens; all by default.")] = None,
) -> None:
    """Record goldens. What differs from before is to be named in the commit."""
    for name in names or GOLDENS:
        if name not in GOLDENS:
            raise typer.BadParameter(f"expected one of {', '.join(GOLDENS)}; got {name!r}", param_hint="NAME")
    for name in names or GOLDENS:
        before = stored(name) if file_of(name).is_file() else None
        with TemporaryDirectory(prefix="openenv-golden-") as folder:
            store(name, GOLDENS[name].record(Path(folder)))
        found = [] if before is None else differences(before, stored(name))
        typer.echo(f"{name}: {'recorded' if before is None else f'{len(found)} lines differ from before'}")
        for line in found[:_MOST_SHOWN]:
            typer.echo(f"  {line[:200]}")


if __name__ == "__main__":
    typer.run(main)
