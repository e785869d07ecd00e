"""The Wordle server: ``uvicorn wordle_env.server.app:app``, or ``openenv serve wordle``."""

from openenv.core.env_server import create_app, server_main

from .wordle_environment import WordleEnvironment

app = create_app(WordleEnvironment, env_name="wordle_env")


def main() -> None:
    """Serve until interrupted."""
    server_main(app)


if __name__ == "__main__":
    main()
