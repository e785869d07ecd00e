"""The TextArena server: ``uvicorn textarena_env.server.app:app``, or ``openenv serve textarena``."""

from functools import partial

from openenv.core.env_server import create_app, server_main

from .settings import Settings
from .textarena_environment import TextArenaEnvironment

app = create_app(partial(TextArenaEnvironment, Settings.from_variables()), env_name="textarena_env")


def main() -> None:
    """Serve until interrupted."""
    server_main(app)


if __name__ == "__main__":
    main()
