"""The BrowserGym server: ``uvicorn browsergym_env.server.app:app``, or ``openenv serve browsergym``."""

from openenv.core.env_server import create_app, server_main

from .browsergym_environment import BrowserGymEnvironment
from .settings import Settings

app = create_app(BrowserGymEnvironment, env_name="browsergym_env")


def main() -> None:
    """Serve until interrupted."""
    server_main(app, default_port=Settings.from_variables().port)


if __name__ == "__main__":
    main()
