"""The SQL server: ``uvicorn sql_env.server.app:app``, or ``openenv serve sql``."""

from openenv.core.env_server import create_app, server_main

from .sql_environment import SqlEnvironment

app = create_app(SqlEnvironment, env_name="sql_env")


def main() -> None:
    """Serve until interrupted."""
    server_main(app)


if __name__ == "__main__":
    main()
