"""Serve the notes with whichever package the interpreter has; the port is printed once connections are taken."""

import argparse
import os
import socket

import uvicorn
from tests.interop.programs.tool_environment import NotesEnvironment

from openenv.core.env_server import create_app
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, required=True)
    sessions = parser.parse_args().sessions
    app = create_app(
        NotesEnvironment, CallToolAction, CallToolObservation, env_name="notes", max_concurrent_envs=sessions
    )
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(listener.getsockname()[1], flush=True)  # noqa: T201
    # uvicorn keeps the number only; the socket object closes its own copy when the process ends.
    uvicorn.run(app, fd=os.dup(listener.fileno()), log_level="warning")
