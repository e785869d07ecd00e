"""The Catch server: ``uvicorn catch_env.server.app:app``, or ``openenv serve catch``."""

from openenv.core.env_server import create_app, server_main

from .catch_environment import CatchEnvironment

app = create_app(CatchEnvironment, env_name="catch")


def main() -> None:
    """Serve until interrupted."""
    server_main(app)


if __name__ == "__main__":
    main()
