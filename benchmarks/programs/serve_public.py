"""Serve the benchmark's environment with the public package, as the Dockerfile that it generates does."""

import argparse

import uvicorn

from benchmarks.programs.environment import EchoAction, EchoEnvironment, EchoObservation
from openenv.core.env_server import create_app

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    app = create_app(EchoEnvironment, EchoAction, EchoObservation, max_concurrent_envs=4096)
    uvicorn.run(app, host="127.0.0.1", port=arguments.port, log_level="warning")
