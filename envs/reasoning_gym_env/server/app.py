"""The reasoning-gym server: ``uvicorn reasoning_gym_env.server.app:app``, or ``openenv serve reasoning_gym``."""

from openenv.core.env_server import create_app, server_main

from .reasoning_gym_environment import ReasoningGymEnvironment

app = create_app(ReasoningGymEnvironment, env_name="reasoning_gym_env")


def main() -> None:
    """Serve until interrupted."""
    server_main(app)


if __name__ == "__main__":
    main()
