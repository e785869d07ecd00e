"""``openenv fork``: a copy of a Space in another account."""

from typing import Annotated

import typer

from openenv.cli.groups import command_app
from openenv.cli.hub import is_interactive
from openenv.cli.key_values import read_secrets, read_variables
from openenv.cli.options import Private, secret_option, space_option, variable_option
from openenv.core.exceptions import ConfigurationError
from openenv.core.providers.spaces import space_url
from openenv.hub.client import Hub
from openenv.hub.forking import DEFAULT_HARDWARE, Fork, fork_space
from openenv.hub.names import checked_repo_id, read_repo_name

Source = Annotated[str, typer.Argument(metavar="SOURCE_SPACE", help="OWNER/NAME of the Space to start from.")]
RepoId = Annotated[
    str | None,
    typer.Option(
        "--repo-id", "-r", metavar="[OWNER/]NAME", help="Name of the new Space.  [default: yours, named as the source]"
    ),
]
SetEnv = Annotated[list[str] | None, variable_option("--set-env", "-e")]
SetSecret = Annotated[list[str] | None, secret_option("--set-secret", "--secret", "-s")]
Hardware = Annotated[str, space_option("--hardware", "-H", help="Hardware that it runs on.")]


def fork(
    source_space: Source,
    repo_id: RepoId = None,
    private: Private = False,
    set_env: SetEnv = None,
    set_secret: SetSecret = None,
    hardware: Hardware = DEFAULT_HARDWARE,
) -> None:
    """Copy a Space into your account, with its files and variables. Its secrets are not copied."""
    variables = read_variables(set_env or [], "--set-env")
    secrets = read_secrets(set_secret or [], "--set-secret")
    try:
        source = read_repo_name(source_space)
        target = checked_repo_id(repo_id or source.own_name)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from error
    if source.kind != "space":
        raise typer.BadParameter(f"{source_space} is no Space, but a {source.kind}.")
    hub = Hub()
    hub.log_in(may_prompt=is_interactive())
    if "/" not in target:
        target = f"{hub.user()}/{target}"
    page = fork_space(Fork(source.id, target, private, hardware, variables, secrets), hub)
    typer.echo(f"Forked {source.id}: {page}")
    typer.echo(f"  once it is built   openenv play {space_url(target)}")
    typer.echo(f"  its files          openenv pull {target}")


app = command_app("fork", fork)
"""The command as an application, for programs."""
