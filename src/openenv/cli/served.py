"""The application that ``openenv serve --reload`` starts anew after each change."""

import os

import typer

from openenv.adapters.targets import find_target
from openenv.core.env_server.access.policy import RequiredToken, auth_requirement_of

app = find_target(os.environ["OPENENV_SERVED"], os.environ.get("OPENENV_SERVED_APP")).app()
requirement = auth_requirement_of(app)
if requirement.token is RequiredToken.OF_APPLICATION:  # which `serve` could not see when it announced the server
    who = "other machines need" if requirement.trusts_this_machine else "all clients need"
    typer.echo(f"The environment's server sets the token that {who}.")
