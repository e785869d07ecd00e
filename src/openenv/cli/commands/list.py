"""``openenv list``: the environments that are installed, that lie in folders here, and that the catalog has."""

import json
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from openenv.auto.catalog import CatalogEntry, load_catalog
from openenv.auto.discovery import list_environments, list_folders
from openenv.auto.names import environment_key
from openenv.auto.package import EnvironmentPackage
from openenv.cli.options import AsJson


def list_known(as_json: AsJson = False) -> None:
    """List the environments that are installed, in folders below this one, and in the catalog."""
    installed = list_environments()
    folders = {package.folder for package in installed}
    here = [package for package in list_folders(Path.cwd()) if package.folder not in folders]
    names = {environment_key(package.name) for package in installed}
    catalog = [entry for entry in load_catalog() if environment_key(entry.name) not in names]
    if as_json:
        facts = [_facts(package, "installed") for package in installed] + [_facts(package, "here") for package in here]
        typer.echo(json.dumps(facts + [_catalog_facts(entry) for entry in catalog], indent=2, ensure_ascii=False))
    else:
        _print(installed, here, catalog)


def _print(installed: list[EnvironmentPackage], here: list[EnvironmentPackage], catalog: list[CatalogEntry]) -> None:
    console = Console(highlight=False)
    if installed:
        _print_group(console, "Installed", [_package_row(package, str(package.folder)) for package in installed])
    else:
        how = "Install one with pip, or make your own: openenv init my_env"
        console.print(f"No environments are installed. {how}", soft_wrap=True)
    if here:
        rows = [_package_row(package, f"./{package.folder.relative_to(Path.cwd())}") for package in here]
        _print_group(console, "In folders here", rows)
    if catalog:
        rows = [(entry.name, "", entry.description, entry.install_command) for entry in catalog]
        _print_group(console, "In the catalog, not installed", rows)
    if installed:
        hint = "openenv info NAME says what one is; openenv play NAME plays it."
        console.print(f"\n{hint}", style="dim", soft_wrap=True)


def _print_group(console: Console, title: str, rows: list[tuple[str, str, str, str]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("name", "version", "description and where it is"):
        table.add_column(heading, overflow="fold")
    for name, version, description, place in rows:
        about = Text(f"{description}\n" if description else "", overflow="fold")
        table.add_row(Text(name, style="bold cyan"), version, about.append(place, style="dim"))
    console.print(f"\n[bold]{title}[/]")
    console.print(table)


def _package_row(package: EnvironmentPackage, place: str) -> tuple[str, str, str, str]:
    return package.name, package.version, package.description, place


def _facts(package: EnvironmentPackage, status: str) -> dict[str, Any]:
    return {
        "name": package.name,
        "status": status,
        "version": package.version,
        "description": package.description,
        "module": package.module,
        "folder": str(package.folder),
        "install": None,
    }


def _catalog_facts(entry: CatalogEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "status": "catalog",
        "version": None,
        "description": entry.description,
        "module": None,
        "folder": None,
        "install": entry.install_command,
    }
