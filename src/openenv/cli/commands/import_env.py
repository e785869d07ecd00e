"""``openenv import``: an environment from a project of another library."""

import re
import shutil
from pathlib import Path
from typing import Annotated

import typer

from openenv.cli.importers import DEFAULT_IMPORTERS, DetectedEnvironment, EnvironmentImporter, ImporterRegistry
from openenv.cli.importers.projects import Kind, Project
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
    project = _checked(source)
    importer, environment = _chosen(project, env_class, kind)
    check_name(name)
    folder = new_folder(output_dir, name)
    try:
        importer.generate(source=project, destination=folder, env_name=name, detected=environment)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    typer.echo(f"Made {folder}, which plays {environment.qualified_name}. Next:")
    typer.echo(f"  openenv serve {folder}      serve it on http://127.0.0.1:8000")
    typer.echo(f"  openenv validate {folder}   check it")


def _checked(source: Path) -> Path:
    if not source.is_dir():
        problem = "is no folder" if source.exists() else "is not there"
        raise typer.BadParameter(f"{source} {problem}; expected the folder of a project.")
    folder = source.resolve()
    if not str(folder).isprintable():
        raise typer.BadParameter(f"{str(folder)!r} can't be written into the files; rename the folder.")
    return folder


def _chosen(project: Path, env_class: str | None, kind: Kind | None) -> tuple[EnvironmentImporter, DetectedEnvironment]:
    """Return the environment to import, with its importer.

    Raises:
        typer.BadParameter: There is none, or there are several.
    """
    found = ImporterRegistry(DEFAULT_IMPORTERS).detect(project, kind)
    if not found:
        raise typer.BadParameter(_none_found(project, kind))
    named = [
        (importer, each)
        for importer, each in found
        if env_class in (None, each.class_name, each.module_path, each.qualified_name)
    ]
    listed = ", ".join(f"{each.qualified_name} ({each.source_type})" for _, each in found)
    if not named:
        raise typer.BadParameter(f"{project} has no environment {env_class!r}, but {listed}.")
    if len(named) > 1:
        raise typer.BadParameter(f"{project} has several environments: {listed}. Choose one with --env-class.")
    importer, environment = named[0]
    parts = environment.module_path.split(".")
    if not all(part.isidentifier() or (len(parts) == 1 and _FILE_NAME.fullmatch(part)) for part in parts):
        raise typer.BadParameter(f"{environment.module_path!r} can't be imported as a module; rename its folders.")
    return importer, environment


def _none_found(project: Path, kind: Kind | None) -> str:
    taskset = Project(project).taskset
    if taskset is not None and kind != "ors":
        return (
            f"{taskset} is a taskset of verifiers' v1 interface, which has a model play it in a program of its "
            "own; expected a function load_environment."
        )
    expected = {
        "ors": "a class that extends openreward.environments.Environment",
        "verifiers": "a function load_environment in a project that imports verifiers",
    }
    wanted = " or ".join(expected.values()) if kind is None else expected[kind]
    return f"{project} has no environment: expected {wanted}."
