"""Serve the Gymnasium environment with pictures, as ``openenv serve gymnasium:ID`` would."""

import argparse

from benchmarks.programs.pictures import ID, register
from openenv.adapters.gymnasium import environment_class
from openenv.core.env_server import create_app
from openenv.core.env_server.app import run_app

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--inline", action="store_true", help="Step on the event loop instead of in threads.")
    arguments = parser.parse_args()
    register()
    environment = environment_class(ID)
    environment.BLOCKING = not arguments.inline
    run_app(create_app(environment, max_concurrent_envs=64, drain_s=0), port=arguments.port)
