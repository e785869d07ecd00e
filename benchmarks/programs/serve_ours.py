"""Serve one of the benchmark's environments with our package, as ``openenv serve`` would."""

import argparse
from functools import partial
from typing import Any

from benchmarks.programs.environment import ENVIRONMENTS, EchoAction, EchoObservation
from benchmarks.programs.our_environments import ScoredEchoEnvironment, Screen, ScreenEnvironment
from openenv.core.env_server import create_app
from openenv.core.env_server.app import listen, run_app, run_workers

# More than the 10,000 to which the cost of a step is followed.
MAX_SESSIONS = 16_384

OURS: dict[str, Any] = {**ENVIRONMENTS, "scored": ScoredEchoEnvironment, "screen": ScreenEnvironment}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--environment", choices=list(OURS), default="threaded")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--journal")
    parser.add_argument("--traces")
    parser.add_argument("--isolation")
    arguments = parser.parse_args()
    environment = OURS[arguments.environment]
    make_app = partial(
        create_app,
        environment,
        EchoAction,
        Screen if environment is ScreenEnvironment else EchoObservation,
        max_concurrent_envs=MAX_SESSIONS,
        **{name: value for name in ("journal", "traces", "isolation") if (value := getattr(arguments, name))},
        drain_s=0,  # nobody is left to play on
    )
    if arguments.workers == 1:
        run_app(make_app(), port=arguments.port)
    else:
        with listen("127.0.0.1", arguments.port) as listener:
            run_workers(make_app, arguments.workers, listener)
