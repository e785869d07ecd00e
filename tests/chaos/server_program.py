"""Serve an environment of the chaos tests until killed: ``python -m tests.chaos.server_program --help``."""

import argparse
import asyncio
import gc
import socket
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from tests.chaos import environments

from openenv.core.env_server.app import create_fastapi_app, listen, run_app, run_workers
from openenv.core.env_server.resumption.resumable_session import ResumableSession
from openenv.core.env_server.sessions.session import Session


def make_app(environment: str, settings: dict[str, Any]) -> FastAPI:
    """Build the application, with two routes that look into the server."""
    kind: type[environments.ChainEnvironment] = getattr(environments, environment)
    app = create_fastapi_app(kind, environments.Move, environments.Position, **settings)
    app.add_api_route("/calls", _calls, include_in_schema=False)
    app.add_api_route("/census", _census, include_in_schema=False)
    return app


async def _calls() -> dict[str, int]:
    """Say what the environments of this process have done."""
    return environments.ChainEnvironment.calls


async def _census(request: Request) -> dict[str, int]:
    """Count what sessions leave behind, alive or not yet collected."""
    gc.collect()
    objects = gc.get_objects()
    return {
        "places": request.app.state.server.active_sessions,
        "sessions": sum(isinstance(thing, Session) for thing in objects),
        "seats": sum(isinstance(thing, ResumableSession) for thing in objects),
        "tasks": len(asyncio.all_tasks()),
    }


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--environment", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--log-level", default="warning")
    parser.add_argument("--setting", action="append", default=[], help="name=value, of ServerSettings")
    arguments = parser.parse_args()
    make = partial(make_app, arguments.environment, dict(map(_setting, arguments.setting)))
    with listen("127.0.0.1", arguments.port) as listener:
        _serve(make, arguments.workers, listener, arguments.log_level)


def _serve(make: "partial[FastAPI]", workers: int, listener: socket.socket, log_level: str) -> None:
    if workers == 1:
        run_app(make(), listener=listener, log_level=log_level)
    else:
        run_workers(make, workers, listener, log_level=log_level)


def _setting(given: str) -> tuple[str, Any]:
    name, _, value = given.partition("=")
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value


if __name__ == "__main__":
    main()
