"""The OpenSpiel server: ``uvicorn openspiel_env.server.app:app``, or ``openenv serve openspiel``."""

from functools import partial

from openenv.core.env_server import create_app, server_main

from .openspiel_environment import OpenSpielEnvironment
from .settings import Settings

app = create_app(partial(OpenSpielEnvironment, Settings.from_variables()), env_name="openspiel_env")


def main() -> None:
    """Serve until interrupted."""
    server_main(app)


if __name__ == "__main__":
    main()
