"""``openenv list``: the environments that are installed, that lie in folders here, and that the catalog has."""

import json
from dataclasses import asdict

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from openenv.auto.discovery import KnownEnvironment, known_environments
from openenv.cli.options import AsJson

_TITLES = {"installed": "Installed", "here": "In folders here", "catalog": "In the catalog, not installed"}


def list_known(as_json: AsJson = False) -> None:
    """List the environments that are installed, in folders below this one, and in the catalog."""
    known = known_environments()
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in known], indent=2, ensure_ascii=False))
    else:
        _print(known, Console(highlight=False))


def _print(known: list[KnownEnvironment], console: Console) -> None:
    groups = {status: [each for each in known if each.status == status] for status in _TITLES}
    if not groups["installed"]:
        how = "Install one from its folder, or make your own: openenv init my_env"
        console.print(f"No environments are installed. {how}", soft_wrap=True)
    for status, environments in groups.items():
        if environments:
            console.print(f"\n[bold]{_TITLES[status]}[/]")
            console.print(_table(environments))
    if groups["installed"] or groups["here"]:
        hint = "openenv info NAME_OR_FOLDER describes an environment; openenv play NAME_OR_FOLDER plays it."
        console.print(f"\n{hint}", style="dim", soft_wrap=True)


def _table(environments: list[KnownEnvironment]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("name", "version", "description and where it is"):
        table.add_column(heading, overflow="fold")
    for each in environments:
        about = Text(f"{each.description}\n" if each.description else "", overflow="fold")
        table.add_row(Text(each.name, style="bold cyan"), each.version, about.append(each.location, style="dim"))
    return table
