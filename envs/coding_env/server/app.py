"""The coding server: ``uvicorn coding_env.server.app:app``, or ``openenv serve coding``."""

from openenv.core.env_server import create_app, server_main
from openenv.core.sandbox import require_sandbox

from .python_codeact_env import PythonCodeActEnv
from .settings import Settings

require_sandbox(Settings.from_variables().sandbox)

app = create_app(PythonCodeActEnv, env_name="coding_env")


def main() -> None:
    """Serve until interrupted."""
    server_main(app)


if __name__ == "__main__":
    main()
