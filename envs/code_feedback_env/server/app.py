"""The code feedback server: ``uvicorn code_feedback_env.server.app:app``, or ``openenv serve code_feedback``."""

from openenv.core.env_server import create_app, server_main
from openenv.core.sandbox import require_sandbox

from .code_feedback_environment import CodeFeedbackEnvironment
from .settings import Settings
from .tasks import task_source

# What is missing ends the server here, and not the first reset.
settings = Settings.from_variables()
require_sandbox(settings.sandbox)
task_source(settings.tasks)

app = create_app(CodeFeedbackEnvironment, env_name="code_feedback_env")


def main() -> None:
    """Serve until interrupted."""
    server_main(app)


if __name__ == "__main__":
    main()
