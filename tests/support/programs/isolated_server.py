"""Serve an environment of this very file with isolation until killed; prints the port, then a line for each hang.

The argument is a file that each environment appends a line to when it is closed.
"""

import os
import re
import socket
import sys
from pathlib import Path
from typing import Any

from openenv.core.env_server.app import create_fastapi_app, run_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Do(Action):
    what: str


class Shown(Observation):
    value: Any = None


class ClosingEnvironment(Environment[Do, Shown, State]):
    """Shows its process, or hangs in C."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True

    def reset(self) -> Shown:
        return Shown(value=[os.getpid(), os.getppid()])

    def step(self, action: Do) -> Shown:
        if action.what == "hang":
            os.write(sys.stdout.fileno(), b"hanging\n")
            re.match(r"(a+)+$", "a" * 60 + "b")
        return Shown(value=action.what)

    @property
    def state(self) -> State:
        return State()

    def close(self) -> None:
        with Path(sys.argv[1]).open("a") as file:
            file.write(f"{os.getpid()}\n")


app = create_fastapi_app(ClosingEnvironment, Do, Shown, max_concurrent_envs=4, isolation="process", drain_s=0)

if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)  # noqa: T201  # how the test learns the port
        run_app(app, listener=listener)
