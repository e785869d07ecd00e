"""Serve one of the benchmark's environments with the public package, as the Dockerfile that it generates does."""

import argparse

import uvicorn

from benchmarks.programs.environment import ENVIRONMENTS, EchoAction, EchoObservation
from openenv.core.env_server import create_app

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--environment", choices=list(ENVIRONMENTS), default="threaded")
    arguments = parser.parse_args()
    app = create_app(ENVIRONMENTS[arguments.environment], EchoAction, EchoObservation, max_concurrent_envs=4096)
    uvicorn.run(app, host="127.0.0.1", port=arguments.port, log_level="warning")
