"""``openenv init``: the folder of a new environment, from the files under ``templates/environment``."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from openenv.cli.groups import command_app
from openenv.cli.importers.kinds import TOOLS, EnvironmentKind, kind_around, kind_of_tasks
from openenv.cli.scaffold import check_name, new_folder
from openenv.core.exceptions import ConfigurationError

EnvName = Annotated[
    str, typer.Argument(metavar="ENV_NAME", help="Name of the environment and of its folder, such as my_env.")
]
OutputDir = Annotated[Path, typer.Option("--output-dir", "-o", metavar="FOLDER", help="Folder to make it in.")]
Tools = Annotated[bool, typer.Option("--tools", help="Make an environment whose actions are calls of tools.")]
Tasks = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Make one of questions and answers, from the rows of a .jsonl, .json, .csv or .parquet file.",
        show_default=False,
    ),
]
Wrap = Annotated[
    str | None,
    typer.Option(
        metavar="gymnasium:ID",
        help="Make one that wraps an environment of Gymnasium, to be changed.",
        show_default=False,
    ),
]


def init(
    env_name: EnvName,
    output_dir: OutputDir = Path(),
    tools: Tools = False,
    tasks: Tasks = None,
    wrap: Wrap = None,
) -> None:
    """Make the folder of a new environment that can be served, played and trained as it is."""
    check_name(env_name)
    folder = new_folder(output_dir, env_name)
    kind = _kind(tools=tools, tasks=tasks, wrap=wrap)
    try:
        kind.write(env_name, folder)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _print_next_steps(folder, kind)


app = command_app("init", init)
"""The command as an application, for programs."""


def _kind(*, tools: bool, tasks: Path | None, wrap: str | None) -> EnvironmentKind:
    given = [name for name, value in (("--tools", tools), ("--tasks", tasks), ("--wrap", wrap)) if value]
    if len(given) > 1:
        raise ConfigurationError(f"{' and '.join(given)} make different environments; give only one of them.")
    if tasks is not None:
        return kind_of_tasks(tasks)
    if wrap is not None:
        return kind_around(wrap)
    return TOOLS if tools else EnvironmentKind()


def _print_next_steps(folder: Path, kind: EnvironmentKind) -> None:
    commands = {
        f"play {folder}": "play it",
        f"serve {folder}": "serve it on http://127.0.0.1:8000",
        f"validate {folder}": "check it",
        f"train {folder}{kind.training}": "train a small model on it",
    }
    width = max(map(len, commands))
    typer.echo(f"Made {folder}. Next:")
    for command, purpose in commands.items():
        typer.echo(f"  openenv {command:<{width}}   {purpose}")
    typer.echo(f"Write your own environment in {folder / 'server' / f'{folder.name}_environment.py'}.")
