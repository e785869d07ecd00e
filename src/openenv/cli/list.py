"""``openenv list``: the installed environments."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from openenv.auto.discovery import list_environments
from openenv.auto.package import EnvironmentPackage


def list_installed(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the installed environments."""
    packages = list_environments()
    if as_json:
        typer.echo(json.dumps([_facts(package) for package in packages], indent=2))
    elif packages:
        Console().print(_table(packages))
    else:
        typer.echo("No environments are installed. Install one with pip, or make your own: openenv init my_env")


def _facts(package: EnvironmentPackage) -> dict[str, str]:
    return {
        "name": package.name,
        "version": package.version,
        "description": package.description,
        "module": package.module,
        "folder": str(package.folder),
    }


def _table(packages: list[EnvironmentPackage]) -> Table:
    table = Table("name", "version", "description and folder", box=None, pad_edge=False, header_style="bold")
    for package in packages:
        about = Text(f"{package.description}\n" if package.description else "", overflow="fold")
        table.add_row(package.name, package.version, about.append(str(package.folder), style="dim"))
    return table
