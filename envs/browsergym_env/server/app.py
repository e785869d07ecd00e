"""The BrowserGym server: ``uvicorn browsergym_env.server.app:app``, or ``openenv serve browsergym``."""

import argparse
import os

from openenv.core.env_server import create_app
from openenv.core.env_server.app import run_app

from ..models import BrowserGymAction, BrowserGymObservation, BrowserGymState
from .browsergym_environment import BrowserGymEnvironment

app = create_app(
    BrowserGymEnvironment,
    BrowserGymAction,
    BrowserGymObservation,
    env_name="browsergym_env",
    state_cls=BrowserGymState,
    max_concurrent_envs=int(os.environ.get("MAX_CONCURRENT_ENVS", "8")),
)


def main() -> None:
    """Serve until interrupted."""
    port = int(os.environ.get("BROWSERGYM_PORT", "8000"))
    parser = argparse.ArgumentParser(description="Serve the BrowserGym environment.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=port, help="port to listen on (default: %(default)s)")
    arguments = parser.parse_args()
    run_app(app, host=arguments.host, port=arguments.port)


if __name__ == "__main__":
    main()
