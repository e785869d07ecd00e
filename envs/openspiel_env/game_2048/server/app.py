"""The 2048 server: ``uvicorn openspiel_env.game_2048.server.app:app``, or ``openenv serve 2048``."""

import argparse
import os

from openenv.core.env_server import create_app
from openenv.core.env_server.app import run_app

from ..models import Game2048Action, Game2048Observation
from .game_2048_environment import Game2048Environment

app = create_app(
    Game2048Environment,
    Game2048Action,
    Game2048Observation,
    env_name="2048",
    # A training batch has a session for each of its rollouts.
    max_concurrent_envs=int(os.environ.get("MAX_CONCURRENT_ENVS", "256")),
)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="Serve the 2048 environment.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: %(default)s)")
    arguments = parser.parse_args()
    run_app(app, host=arguments.host, port=arguments.port)


if __name__ == "__main__":
    main()
