"""The code feedback server: ``uvicorn code_feedback_env.server.app:app``, or ``openenv serve code_feedback``."""

import os

from openenv.core.env_server import create_app, server_main
from openenv.core.sandbox import require_sandbox

from .code_feedback_environment import CodeFeedbackEnvironment, sandbox_kind
from .tasks import task_source

# What is missing is told here, and not to whoever resets first.
require_sandbox(sandbox_kind())
task_source(os.environ.get("CODE_FEEDBACK_TASKS"))

app = create_app(CodeFeedbackEnvironment, env_name="code_feedback_env")


def main() -> None:
    """Serve until interrupted."""
    server_main(app)


if __name__ == "__main__":
    main()
