"""Serve counters until killed, with everything in the log; prints the port first.

The argument is how to write the log.
"""

import logging
import sys
from typing import Any

from openenv.core.env_server.app import create_fastapi_app, listen, run_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

logger = logging.getLogger("the_author")


class Add(Action):
    """Add to the total; the environment fails at 0 and tells its author of 1."""

    amount: int


class Total(Observation):
    total: int


class LoggedEnvironment(Environment[Add, Total, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    REQUIRES_RESET = True

    def __init__(self) -> None:
        self._total = 0

    def reset(self) -> Total:
        self._total = 0
        return Total(total=0)

    def step(self, action: Add) -> Total:
        if action.amount == 0:
            raise ValueError("kaboom")
        if action.amount == 1:
            logger.warning("one at a time")
        self._total += action.amount
        return Total(total=self._total)

    @property
    def state(self) -> State:
        return State()


def main(log_format: Any, log_level: str) -> None:
    app = create_fastapi_app(LoggedEnvironment, Add, Total, max_concurrent_envs=64, resume_window_s=0.2, drain_s=0)
    with listen("127.0.0.1", 0) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")  # how the test learns the port
        sys.stdout.flush()
        run_app(app, listener=listener, log_level=log_level, log_format=log_format)


if __name__ == "__main__":
    main(*sys.argv[1:])
