"""Serve the benchmark's environment with our package, as ``openenv serve`` would."""

import argparse

from benchmarks.programs.environment import EchoAction, EchoEnvironment, EchoObservation, NonBlockingEchoEnvironment
from openenv.core.env_server import create_app
from openenv.core.env_server.app import run_app

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--non-blocking", action="store_true")
    arguments = parser.parse_args()
    environment = NonBlockingEchoEnvironment if arguments.non_blocking else EchoEnvironment
    app = create_app(environment, EchoAction, EchoObservation, max_concurrent_envs=4096)
    run_app(app, port=arguments.port)
