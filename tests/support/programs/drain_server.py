"""Serve counters until told to end; prints the port first. What it logs goes to standard error.

Arguments: how many processes, how many sessions, and the seconds that episodes get to end.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))  # where workers, too, find the package of the tests

from tests.support.environments.common import Add, CounterEnvironment, Total

from openenv.core.env_server.app import create_fastapi_app, listen, run_app, run_workers


def make_app(max_sessions: int, drain_s: float) -> Any:
    return create_fastapi_app(CounterEnvironment, Add, Total, max_concurrent_envs=max_sessions, drain_s=drain_s)


def main(workers: str, max_sessions: str, drain_s: str) -> None:
    make = partial(make_app, int(max_sessions), float(drain_s))
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        if int(workers) > 1:
            run_workers(make, int(workers), listener, on_ready=lambda _: print(port, flush=True))  # noqa: T201
        else:
            app = make()
            print(port, flush=True)  # noqa: T201  # how the test learns the port
            run_app(app, listener=listener)


if __name__ == "__main__":
    main(*sys.argv[1:])
