"""The coding server: ``uvicorn coding_env.server.app:app``, or ``openenv serve coding``."""

import argparse
import os

from openenv.core.env_server import create_app
from openenv.core.env_server.app import run_app
from openenv.core.sandbox import require_sandbox

from ..models import CodeAction, CodeObservation, CodeState
from .python_codeact_env import PythonCodeActEnv
from .settings import settings

require_sandbox(settings().kind)

app = create_app(
    PythonCodeActEnv,
    CodeAction,
    CodeObservation,
    env_name="coding_env",
    state_cls=CodeState,
    max_concurrent_envs=int(os.environ.get("MAX_CONCURRENT_ENVS", "16")),
)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="Serve the coding environment.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: %(default)s)")
    arguments = parser.parse_args()
    run_app(app, host=arguments.host, port=arguments.port)


if __name__ == "__main__":
    main()
