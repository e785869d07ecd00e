"""``openenv catalog``: a file of the environments in a Git repository, built and inspected."""

from pathlib import Path
from typing import Annotated

import typer

from openenv.cli.commands.discover import discover as discover  # the public package has it here
from openenv.cli.groups import command_group
from openenv.discovery.producer import build_catalog
from openenv.discovery.search import resolve_entry
from openenv.discovery.serialization import load_catalog, write_catalog

app = command_group("Build a catalog of a repository's environments, and look into it.")

Repository = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the repository.")]
RepositoryUri = Annotated[
    str, typer.Option(metavar="URL", help="Public address of the repository, https://github.com/OWNER/NAME.git.")
]
Publisher = Annotated[str, typer.Option(metavar="DOMAIN", help="Publisher's domain, which nothing verifies.")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File for the catalog.")]
Revision = Annotated[str, typer.Option(help="Branch, tag or commit.")]
Root = Annotated[str, typer.Option(metavar="FOLDER", help="Folder that holds the environments' folders.")]
Namespace = Annotated[str, typer.Option(help="First part of the entries' names below the publisher.")]
Identifier = Annotated[str, typer.Argument(metavar="ID", help="Id of an entry, as discover shows it.")]
Catalog = Annotated[Path, typer.Option(metavar="FILE", help="File of a catalog.")]


@app.command()
def build(
    repository: Repository,
    repository_uri: RepositoryUri,
    publisher: Publisher,
    output: Output,
    revision: Revision = "HEAD",
    root: Root = "envs",
    namespace: Namespace = "openenv",
) -> None:
    """Build the catalog of a repository at one commit. Only files that are committed are read; no code is run.

    Ends with status 1 where an environment's files lack what its entry needs; the catalog is written all the same.
    """
    snapshot = build_catalog(
        repository,
        repository_uri=repository_uri,
        publisher=publisher,
        namespace=namespace,
        revision=revision,
        root=root,
    )
    write_catalog(snapshot, output)
    for issue in snapshot.issues:
        typer.echo(f"{issue.severity.capitalize()}: {issue.message}", err=True)
    extent = "" if snapshot.complete else ", which is not all"
    typer.echo(f"{len(snapshot.entries)} environments{extent}: {output}", err=True)
    typer.echo(snapshot.digest, err=True)
    raise typer.Exit(0 if snapshot.complete else 1)


@app.command()
def inspect(identifier: Identifier, catalog: Catalog) -> None:
    """Print one entry as JSON. Nothing that it names is fetched."""
    entry = resolve_entry(load_catalog(catalog), identifier)
    typer.echo(entry.model_dump_json(by_alias=True, exclude_none=True, indent=2))
