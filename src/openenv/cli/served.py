"""The application that ``openenv serve --reload`` starts anew after each change."""

import os

import typer

from openenv.cli.targets import find_target
from openenv.core.env_server.access.policy import AuthRequirement, auth_requirement_of

app = find_target(os.environ["OPENENV_SERVED"], os.environ.get("OPENENV_SERVED_APP")).app()
if (
    auth_requirement_of(app) is AuthRequirement.TOKEN_OF_APPLICATION
):  # which `serve` could not see when it announced the server
    typer.echo("The environment's own server sets the token that other machines need.")
