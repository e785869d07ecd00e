"""``openenv card``: one page and a badge with what is measured of an environment in five minutes."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from openenv.auto.discovery import find_environment
from openenv.auto.target import TargetKind
from openenv.cli.options import AsJson
from openenv.cli.targets import read_target, refusing
from openenv.records.prices import read_prices
from openenv.validation.card.card import Card, make_card
from openenv.validation.card.page import write_card

KINDS = frozenset({TargetKind.NAME, TargetKind.FOLDER, TargetKind.FILE})
_STYLES = {True: "green", False: "red", None: ""}

Given = Annotated[
    str, typer.Argument(metavar="TARGET", help="Folder, file or name of an environment.", show_default=False)
]
Output = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File of the page; the badge and the Markdown lie beside it.  [default: NAME-card.html]",
        show_default=False,
    ),
]
PriceFile = Annotated[
    Path | None,
    typer.Option(
        "--prices", metavar="FILE", help="YAML, TOML or JSON file with prices in US dollars, of a sandbox and of CPU."
    ),
]


def card(target: Given, output: Output = None, prices: PriceFile = None, as_json: AsJson = False) -> None:
    """Measure an environment in five minutes at most: one page, and a badge.

    Its floor and its oracle, exploits, determinism, isolation, CPU and time of a step, the price of episodes, the
    share of groups that a trainer learns from, and a learning curve. What could not be measured has its reason.

    Writes the page, the same as Markdown and a badge; with --json only what --output names.
    """
    found = read_target(target, "card", KINDS, trusted=True)
    with refusing():
        named = None if prices is None else read_prices(prices)
        package = find_environment(found)
    made = make_card(package, named)
    file = output or (None if as_json else Path(f"{package.name}-card.html"))
    files = [] if file is None else write_card(made, file)
    if as_json:
        typer.echo(json.dumps(made.as_json(), indent=2, ensure_ascii=False))
    else:
        _print(made, files)


def _print(made: Card, files: list[Path]) -> None:
    console = Console(highlight=False)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    for figure in made.figures:
        text = Text(figure.text or "not measured", _STYLES[figure.is_good])
        table.add_row(figure.name, text, escape(figure.reason))
    console.print(f"{escape(made.name)} {escape(made.version)}, measured in {made.seconds:.0f} s", style="bold")
    console.print(table)
    for file in files:
        console.print(f"Written: {file}", soft_wrap=True)
