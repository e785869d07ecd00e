"""``openenv init``: the folder of a new environment, from the files under ``templates/environment``."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from openenv.cli.groups import command_app
from openenv.cli.scaffold import check_name, common_values, new_folder, write_environment

EMPTY_FOLDERS = ("outputs/logs", "outputs/evals")

EnvName = Annotated[
    str, typer.Argument(metavar="ENV_NAME", help="Name of the environment and of its folder, such as my_env.")
]
OutputDir = Annotated[Path, typer.Option("--output-dir", "-o", help="Where to make the folder.")]


def init(env_name: EnvName, output_dir: OutputDir = Path()) -> None:
    """Make the folder of a new environment that can be served, played and trained as it is."""
    check_name(env_name)
    folder = new_folder(output_dir, env_name)
    try:
        write_scaffold(env_name, folder)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _say_what_next(folder)


app = command_app("init", init)
"""The command as an application of its own, for programs."""


def write_scaffold(env_name: str, folder: Path) -> None:
    """Write the files of a new environment.

    Args:
        env_name: Its name, a Python identifier.
        folder: The folder to fill; made if it is not there.
    """
    write_environment(("environment",), folder, common_values(env_name))
    for name in EMPTY_FOLDERS:
        (folder / name).mkdir(parents=True)


def _say_what_next(folder: Path) -> None:
    typer.echo(f"Made {folder}. Next:")
    typer.echo(f"  openenv play {folder}       play it")
    typer.echo(f"  openenv serve {folder}      serve it on http://127.0.0.1:8000")
    typer.echo(f"  openenv validate {folder}   check it")
    typer.echo(f"  openenv train {folder}      train a small model on it")
    typer.echo(f"Write your own environment in {folder / 'server' / f'{folder.name}_environment.py'}.")
