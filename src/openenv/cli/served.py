"""The application that ``openenv serve --reload`` starts anew after each change."""

import os

import typer

from openenv.auto.discovery import find_environment
from openenv.core.env_server.security import WayIn, way_in_of

app = find_environment(os.environ["OPENENV_SERVED"]).app()
if way_in_of(app) is WayIn.TOKEN_OF_APPLICATION:  # which `serve` could not see when it announced the server
    typer.echo("The environment's own server sets the token that other machines need.")
