"""``openenv init``: the folder of a new environment, from the files under ``templates/environment``."""

import keyword
import re
import shutil
import sys
from importlib.metadata import packages_distributions
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from openenv._version import __version__
from openenv.auto.names import class_prefix, environment_key

SUFFIX = ".tmpl"
NAME_IN_PATHS = "__name__"
EMPTY_FOLDERS = ("outputs/logs", "outputs/evals")
# As the name of a package these would hide modules that the environment itself imports, or be hidden by them. Python
# leaves its own tests out of the list of its modules.
TAKEN_NAMES = frozenset({"openenv", "server", "models", "client", "test", "tests"}) | sys.stdlib_module_names

EnvName = Annotated[
    str, typer.Argument(metavar="ENV_NAME", help="Name of the environment and of its folder, such as my_env.")
]
OutputDir = Annotated[Path, typer.Option("--output-dir", "-o", help="Where to make the folder.")]


def init(env_name: EnvName, output_dir: OutputDir = Path()) -> None:
    """Make the folder of a new environment that can be served, played and trained as it is."""
    _check_name(env_name)
    folder = output_dir / env_name
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise typer.BadParameter(f"{folder} is there already; choose another name or --output-dir.")
    try:
        write_scaffold(env_name, folder)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _say_what_next(folder)


def write_scaffold(env_name: str, folder: Path) -> None:
    """Write the files of a new environment.

    Args:
        env_name: Its name, a Python identifier.
        folder: The folder to fill; made if it is not there.
    """
    values = {
        "name": env_name,
        "key": environment_key(env_name),
        "prefix": class_prefix(env_name),
        "title": env_name.replace("_", " ").strip().title(),
        "image": env_name.replace("_", "-"),
        "openenv_version": __version__,
    }
    _write_files(files("openenv.cli") / "templates" / "environment", folder, values)
    for name in EMPTY_FOLDERS:
        (folder / name).mkdir(parents=True)


def _write_files(source: Traversable, target: Path, values: dict[str, str]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        if entry.is_dir():
            _write_files(entry, target / entry.name, values)
        elif entry.name.endswith(SUFFIX):
            name = entry.name.removesuffix(SUFFIX).replace(NAME_IN_PATHS, values["name"])
            content = Template(entry.read_text(encoding="utf-8")).substitute(values)
            (target / name).write_text(content, encoding="utf-8")


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
        raise typer.BadParameter(f"{name!r} can't be a package's name: use letters, digits and _, such as my_env.")
    other = name if name.endswith("_env") else f"{name}_env"
    if name in TAKEN_NAMES:
        raise typer.BadParameter(f"{name!r} is the name of another module; try {other}.")
    owners = packages_distributions().get(name)
    if owners:
        another = f"my_{name}" if other == name else other
        raise typer.BadParameter(f"{name!r} is a module of the installed package {owners[0]}; try {another}.")


def _say_what_next(folder: Path) -> None:
    typer.echo(f"Made {folder}. Next:")
    typer.echo(f"  openenv play {folder}       play it")
    typer.echo(f"  openenv serve {folder}      serve it on http://127.0.0.1:8000")
    typer.echo(f"  openenv validate {folder}   check it")
    typer.echo(f"  openenv train {folder}      train a small model on it")
    typer.echo(f"Write your own environment in {folder / 'server' / f'{folder.name}_environment.py'}.")
