"""Serve one of the benchmark's environments with our package, as ``openenv serve`` would."""

import argparse
from functools import partial

from benchmarks.programs.environment import ENVIRONMENTS, EchoAction, EchoObservation
from openenv.core.env_server import create_app
from openenv.core.env_server.app import listen, run_app, run_workers

# More than the 10,000 to which the cost of a step is followed.
MAX_SESSIONS = 16_384

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--environment", choices=list(ENVIRONMENTS), default="threaded")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--journal")
    arguments = parser.parse_args()
    environment = ENVIRONMENTS[arguments.environment]
    make_app = partial(
        create_app,
        environment,
        EchoAction,
        EchoObservation,
        max_concurrent_envs=MAX_SESSIONS,
        journal=arguments.journal,
        drain_s=0,  # nobody is left to play on
    )
    if arguments.workers == 1:
        run_app(make_app(), port=arguments.port)
    else:
        with listen("127.0.0.1", arguments.port) as listener:
            run_workers(make_app, arguments.workers, listener)
