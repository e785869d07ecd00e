"""The blackjack server: ``uvicorn blackjack_env.server.app:app``, or ``openenv serve blackjack``."""

from openenv.core.env_server import create_app, server_main

from .blackjack_environment import BlackjackEnvironment

app = create_app(BlackjackEnvironment, env_name="blackjack")


def main() -> None:
    """Serve until interrupted."""
    server_main(app)


if __name__ == "__main__":
    main()
