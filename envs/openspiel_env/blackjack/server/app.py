"""The blackjack server: ``uvicorn openspiel_env.blackjack.server.app:app``, or ``openenv serve blackjack``."""

import argparse
import os

from openenv.core.env_server import create_app
from openenv.core.env_server.app import run_app

from ..models import BlackjackAction, BlackjackObservation
from .blackjack_environment import BlackjackEnvironment

app = create_app(
    BlackjackEnvironment,
    BlackjackAction,
    BlackjackObservation,
    env_name="blackjack",
    # A training batch has a session for each of its rollouts.
    max_concurrent_envs=int(os.environ.get("MAX_CONCURRENT_ENVS", "256")),
)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="Serve the blackjack environment.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: %(default)s)")
    arguments = parser.parse_args()
    run_app(app, host=arguments.host, port=arguments.port)


if __name__ == "__main__":
    main()
