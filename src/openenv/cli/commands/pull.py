"""``openenv pull``: an environment's folder from the Hub."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from openenv.auto.manifest import MANIFEST_FILE
from openenv.cli.hub import show_progress_to_people_only
from openenv.core.exceptions import ConfigurationError
from openenv.hub.client import Hub
from openenv.hub.downloading import folder_name
from openenv.hub.names import RepoName, read_repo_name
from openenv.hub.pulling import pull as pull_repo

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="OWNER/NAME of a Space, or the address of its page.")]
Folder = Annotated[Path | None, typer.Argument(metavar="FOLDER", help="Folder to download to.  [default: its name]")]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit.  [default: main]")]
RepoType = Annotated[
    Literal["space", "model", "dataset"] | None,
    typer.Option(help="Kind of the repository.  [default: space]", show_default=False),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is in the folder.")]


def pull(
    source: Source,
    folder: Folder = None,
    revision: Revision = None,
    repo_type: RepoType = None,
    force: Force = False,
) -> None:
    """Get an environment's folder from the Hub, to look at it, serve it or change it. None of its code is run."""
    name = _named(source, revision, repo_type)
    show_progress_to_people_only()
    pulled = pull_repo(name, folder or Path(folder_name(name.own_name)), Hub(), force=force)
    typer.echo(f"Pulled {name.id} at {pulled.commit[:12]}: {len(pulled.files)} files in {pulled.folder}")
    if (pulled.folder / MANIFEST_FILE).is_file():
        typer.echo("Its code is that of its author: look at it before you run it.")
        typer.echo(f"  openenv validate --no-run {pulled.folder}   check it, without running it")
        typer.echo(f"  pip install -e {pulled.folder}     install what it needs")
        typer.echo(f"  openenv serve {pulled.folder}      serve it on http://127.0.0.1:8000")


def _named(source: str, revision: str | None, repo_type: str | None) -> RepoName:
    try:
        name = read_repo_name(source)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from error
    if repo_type is not None and "://" in source and repo_type != name.kind:
        raise typer.BadParameter(f"{source} is a {name.kind}; leave out --repo-type {repo_type}.")
    return RepoName(name.id, repo_type or name.kind, revision or name.revision)
