"""The terminal server: ``uvicorn terminal_env.server.app:app``, or ``openenv serve terminal``."""

import argparse
import os

from openenv.core.env_server import create_app
from openenv.core.env_server.app import run_app

from ..models import TerminalState
from .boxes import require_programs, sandbox_kind
from .tasks import task_source
from .terminal_environment import TerminalEnvironment

# What is missing is told here, and not to whoever resets first.
require_programs(sandbox_kind())
task_source(os.environ.get("TERMINAL_TASKS"))

app = create_app(
    TerminalEnvironment,
    env_name="terminal_env",
    state_cls=TerminalState,
    max_concurrent_envs=int(os.environ.get("MAX_CONCURRENT_ENVS", "32")),
)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="Serve the terminal environment.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: %(default)s)")
    arguments = parser.parse_args()
    run_app(app, host=arguments.host, port=arguments.port)


if __name__ == "__main__":
    main()
