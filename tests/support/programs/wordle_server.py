"""Serve Wordle until killed; prints the port first. The argument is the number of sessions."""

import socket
import sys

from openenv.core.env_server.app import create_fastapi_app, run_app
from wordle_env.models import WordleAction, WordleObservation, WordleState
from wordle_env.server.wordle_environment import WordleEnvironment

if __name__ == "__main__":
    app = create_fastapi_app(
        WordleEnvironment, WordleAction, WordleObservation, state_cls=WordleState, max_concurrent_envs=int(sys.argv[1])
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)  # noqa: T201  # how the test learns the port
        run_app(app, listener=listener)
