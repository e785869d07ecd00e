"""Serve the counter with whichever package the interpreter has; the port is printed once connections are taken."""

import argparse
import os
import socket

import uvicorn
from tests.interop.programs.environment import Add, CounterEnvironment, CounterState, Total

from openenv.core.env_server import create_app

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, required=True)
    app = create_app(
        CounterEnvironment,
        Add,
        Total,
        env_name="counter",
        max_concurrent_envs=parser.parse_args().sessions,
        state_cls=CounterState,
    )
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(listener.getsockname()[1], flush=True)  # noqa: T201
    # uvicorn keeps the number only; the socket object closes its own copy when the process ends.
    uvicorn.run(app, fd=os.dup(listener.fileno()), log_level="warning")
