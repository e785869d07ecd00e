"""The terminal server: ``uvicorn terminal_env.server.app:app``, or ``openenv serve terminal``."""

import os

from openenv.core.env_server import create_app, server_main

from .boxes import require_programs, sandbox_kind
from .tasks import task_source
from .terminal_environment import TerminalEnvironment

# What is missing is told here, and not to whoever resets first.
require_programs(sandbox_kind())
task_source(os.environ.get("TERMINAL_TASKS"))

app = create_app(TerminalEnvironment, env_name="terminal_env")


def main() -> None:
    """Serve until interrupted."""
    server_main(app)


if __name__ == "__main__":
    main()
