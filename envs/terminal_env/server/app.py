"""The terminal server: ``uvicorn terminal_env.server.app:app``, or ``openenv serve terminal``."""

from openenv.core.env_server import create_app, server_main

from .boxes import require_programs
from .settings import Settings
from .tasks import task_source
from .terminal_environment import TerminalEnvironment

# What is missing ends the server here, and not the first reset.
settings = Settings.from_variables()
require_programs(settings.sandbox)
task_source(settings.tasks)

app = create_app(TerminalEnvironment, env_name="terminal_env")


def main() -> None:
    """Serve until interrupted."""
    server_main(app)


if __name__ == "__main__":
    main()
