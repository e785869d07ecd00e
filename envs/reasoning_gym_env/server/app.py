"""The reasoning-gym server: ``uvicorn reasoning_gym_env.server.app:app``, or ``openenv serve reasoning_gym``."""

import argparse
import os

from openenv.core.env_server import create_app
from openenv.core.env_server.app import run_app

from ..models import ReasoningState
from .reasoning_gym_environment import ReasoningGymEnvironment

app = create_app(
    ReasoningGymEnvironment,
    env_name="reasoning_gym_env",
    state_cls=ReasoningState,
    max_concurrent_envs=int(os.environ.get("MAX_CONCURRENT_ENVS", "64")),
)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="Serve the reasoning-gym environment.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: %(default)s)")
    arguments = parser.parse_args()
    run_app(app, host=arguments.host, port=arguments.port)


if __name__ == "__main__":
    main()
