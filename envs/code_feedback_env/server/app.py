"""The code feedback server: ``uvicorn code_feedback_env.server.app:app``, or ``openenv serve code_feedback``."""

import argparse
import os

from openenv.core.env_server import create_app
from openenv.core.env_server.app import run_app
from openenv.core.sandbox import require_sandbox

from ..models import CodeAction, CodeFeedbackState, CodeObservation
from .code_feedback_environment import CodeFeedbackEnvironment, sandbox_kind
from .tasks import task_source

# What is missing is told here, and not to whoever resets first.
require_sandbox(sandbox_kind())
task_source(os.environ.get("CODE_FEEDBACK_TASKS"))

app = create_app(
    CodeFeedbackEnvironment,
    CodeAction,
    CodeObservation,
    env_name="code_feedback_env",
    state_cls=CodeFeedbackState,
    max_concurrent_envs=int(os.environ.get("MAX_CONCURRENT_ENVS", "64")),
)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="Serve the code feedback environment.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: %(default)s)")
    arguments = parser.parse_args()
    run_app(app, host=arguments.host, port=arguments.port)


if __name__ == "__main__":
    main()
