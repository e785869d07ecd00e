"""Serve counters with several workers until killed; prints the port first, then a line for each step that waits.

Arguments: the number of workers, the number of sessions, the seconds that workers get to end, and a file whose being
there keeps further workers from starting.
"""

import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from openenv.core.env_server.app import create_fastapi_app, listen, run_workers
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Do(Action):
    """Count up by ``amount``, then do ``what``: nothing, ``hang``, ``leave`` without a word, or ``wait`` a second."""

    amount: int = 1
    what: str = ""


class Total(Observation):
    total: int
    process: int


class WorkerEnvironment(Environment[Do, Total, State]):
    """Counts on the event loop of its worker, and says which process that is."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    REQUIRES_RESET = True

    def __init__(self) -> None:
        self._total = 0

    def reset(self) -> Total:
        self._total = 0
        return self._observe()

    def step(self, action: Do) -> Total:
        self._total += action.amount
        if action.what == "leave":
            os._exit(7)
        if action.what == "wait":
            os.write(sys.stdout.fileno(), b"waiting\n")
            time.sleep(1)
        while action.what == "hang":
            time.sleep(1)
        return self._observe()

    @property
    def state(self) -> State:
        return State(step_count=self._total)

    def _observe(self) -> Total:
        return Total(total=self._total, process=os.getpid())


def make_app(max_sessions: int, broken: str) -> Any:
    if broken and Path(broken).exists():
        raise LookupError("the shelf is empty")
    app = create_fastapi_app(
        WorkerEnvironment, Do, Total, max_concurrent_envs=max_sessions, max_message_size_mb=0.5, drain_s=0
    )
    app.add_api_route("/capacity", app.state.server.get_capacity_status)
    return app


def main(workers: str, max_sessions: str, grace_s: str, broken: str = "") -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        run_workers(
            partial(make_app, int(max_sessions), broken),
            int(workers),
            listener,
            on_ready=lambda _: print(port, flush=True),  # noqa: T201  # how the test learns the port
            grace_s=float(grace_s),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
