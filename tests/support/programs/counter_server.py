"""Serve counters until killed; prints the port first, then a line for each step that waits.

The arguments are the number of sessions and, where they are not to be any port, the default and none, the port, the
``resume_window_s``, and the files of a TLS certificate and its key.
"""

import os
import socket
import sys
import time

from openenv.core.env_server.app import create_fastapi_app, run_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.tls import TLS
from openenv.core.env_server.types import Action, Observation, State


class Add(Action):
    amount: int
    note: str = ""


class Total(Observation):
    total: int


class SlowCounterEnvironment(Environment[Add, Total, State]):
    """Counts; adding 9 takes a minute."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True

    def __init__(self) -> None:
        self._total = 0

    def reset(self) -> Total:
        self._total = 0
        return Total(total=0)

    def step(self, action: Add) -> Total:
        if action.amount == 9:
            os.write(sys.stdout.fileno(), b"held\n")  # in one piece, whichever threads write at once
            time.sleep(60)
        self._total += action.amount
        return Total(total=self._total)

    @property
    def state(self) -> State:
        return State()


if __name__ == "__main__":
    window_s = float(sys.argv[3]) if len(sys.argv) > 3 else 30.0
    app = create_fastapi_app(
        SlowCounterEnvironment, Add, Total, max_concurrent_envs=int(sys.argv[1]), resume_window_s=window_s
    )
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with socket.create_server(("127.0.0.1", port)) as listener:
        print(listener.getsockname()[1], flush=True)  # noqa: T201  # how the test learns the port
        run_app(app, listener=listener, tls=TLS(*sys.argv[4:]) if len(sys.argv) > 4 else None)
