"""The 2048 server: ``uvicorn game_2048_env.server.app:app``, or ``openenv serve 2048``."""

from openenv.core.env_server import create_app, server_main

from .game_2048_environment import Game2048Environment

app = create_app(Game2048Environment, env_name="2048")


def main() -> None:
    """Serve until interrupted."""
    server_main(app)


if __name__ == "__main__":
    main()
