"""``openenv import``: an environment from a project of another library."""

import re
import shutil
from pathlib import Path
from typing import Annotated

import typer

from openenv.cli.importers.generation import write_environment
from openenv.cli.importers.projects import Kind, Project, ProjectEnvironment
from openenv.cli.importers.requirements import project_requirements
from openenv.cli.scaffold import check_name, new_folder

SourceFolder = Annotated[
    Path, typer.Argument(metavar="SOURCE", help="Folder of the project, of the OpenReward SDK (ORS) or of verifiers.")
]
Name = Annotated[str, typer.Option("--name", "-n", help="Name of the environment and of its folder, such as my_env.")]
OutputDir = Annotated[Path, typer.Option("--output-dir", "-o", metavar="FOLDER", help="Folder to make it in.")]
EnvClass = Annotated[
    str | None,
    typer.Option(
        metavar="[MODULE:]NAME",
        help="Environment, where the project has several: its class, or for verifiers its module.",
    ),
]
ProjectKind = Annotated[
    Kind | None,
    typer.Option("--type", help="Library that the project is written for.  [default: the one that it imports]"),
]

# Of a module that is in no package, and so is loaded by its file.
_FILE_NAME = re.compile(r"[\w-]+")


def import_env(
    source: SourceFolder, name: Name, output_dir: OutputDir, env_class: EnvClass = None, kind: ProjectKind = None
) -> None:
    """Make the folder of an environment that plays one of another project, by that project's own code.

    The source is read, and neither imported nor copied: the folder depends on it.
    """
    project = _project(source)
    environment = _chosen(project, env_class, kind)
    check_name(name)
    folder = new_folder(output_dir, name)
    requirements = project_requirements(project.folder, environment.root)
    try:
        write_environment(name, folder, environment, requirements)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    typer.echo(f"Made {folder}, which plays {environment.reference}. Next:")
    typer.echo(f"  openenv serve {folder}      serve it on http://127.0.0.1:8000")
    typer.echo(f"  openenv validate {folder}   check it")


def _project(source: Path) -> Project:
    if not source.is_dir():
        problem = "is no folder" if source.exists() else "is not there"
        raise typer.BadParameter(f"{source} {problem}; expected the folder of a project.")
    folder = source.resolve()
    if not str(folder).isprintable():
        raise typer.BadParameter(f"{str(folder)!r} can't be written into the files; rename the folder.")
    return Project(folder)


def _chosen(project: Project, env_class: str | None, kind: Kind | None) -> ProjectEnvironment:
    """Return the environment to import.

    Raises:
        typer.BadParameter: There is none, or there are several.
    """
    found = [each for each in project.environments if kind in (None, each.kind)]
    if not found:
        raise typer.BadParameter(_none_found(project, kind))
    named = [each for each in found if env_class in (None, each.name, each.module, each.reference)]
    listed = ", ".join(f"{each.reference} ({each.kind})" for each in found)
    if not named:
        raise typer.BadParameter(f"{project.folder} has no environment {env_class!r}, but {listed}.")
    if len(named) > 1:
        raise typer.BadParameter(f"{project.folder} has several environments: {listed}. Choose one with --env-class.")
    environment = named[0]
    parts = environment.module.split(".")
    if not all(part.isidentifier() or (len(parts) == 1 and _FILE_NAME.fullmatch(part)) for part in parts):
        raise typer.BadParameter(f"{environment.module!r} can't be imported as a module; rename its folders.")
    return environment


def _none_found(project: Project, kind: Kind | None) -> str:
    if project.taskset is not None and kind != "ors":
        return (
            f"{project.taskset} is a taskset of verifiers' v1 interface, which has a model play it in a program of its "
            "own; expected a function load_environment."
        )
    expected = {
        "ors": "a class that extends openreward.environments.Environment",
        "verifiers": "a function load_environment in a project that imports verifiers",
    }
    wanted = " or ".join(expected.values()) if kind is None else expected[kind]
    return f"{project.folder} has no environment: expected {wanted}."
