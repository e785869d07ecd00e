"""The echo server: ``uvicorn echo_env.server.app:app``, or ``openenv serve echo``."""

from openenv.core.env_server import create_app, server_main

from .echo_environment import EchoEnvironment

app = create_app(EchoEnvironment, env_name="echo_env")


def main() -> None:
    """Serve until interrupted."""
    server_main(app)


if __name__ == "__main__":
    main()
