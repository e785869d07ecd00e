"""The BrowserGym server: ``uvicorn browsergym_env.server.app:app``, or ``openenv serve browsergym``."""

import os

from openenv.core.env_server import create_app, server_main

from .browsergym_environment import BrowserGymEnvironment

app = create_app(BrowserGymEnvironment, env_name="browsergym_env")


def main() -> None:
    """Serve until interrupted."""
    server_main(app, default_port=int(os.environ.get("BROWSERGYM_PORT", "8000")))


if __name__ == "__main__":
    main()
