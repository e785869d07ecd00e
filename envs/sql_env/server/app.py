"""The SQL server: ``uvicorn sql_env.server.app:app``, or ``openenv serve sql``."""

import argparse
import os

from openenv.core.env_server import create_app
from openenv.core.env_server.app import run_app

from ..models import SqlState
from .sql_environment import SqlEnvironment

app = create_app(
    SqlEnvironment,
    env_name="sql_env",
    state_cls=SqlState,
    max_concurrent_envs=int(os.environ.get("MAX_CONCURRENT_ENVS", "64")),
)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="Serve the SQL environment.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: %(default)s)")
    arguments = parser.parse_args()
    run_app(app, host=arguments.host, port=arguments.port)


if __name__ == "__main__":
    main()
