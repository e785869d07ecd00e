"""``python -m benchmarks.thousands``: thousands of sessions on one server, whose steps take a second each.

The grid is that of the public package's figures: 32 to 16,384 sessions, each with a client of its own. All clients
connect, then all reset, then all step, each time together. The table has the share of sessions whose three calls came
back, the time until all were connected, and how long a step took; what is above one second is the server's, and that of
the client, which is a single process here and shares the server's cores.
"""

import asyncio
import time
from collections.abc import Awaitable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.bench import OUR_PYTHON, PROGRAMS
from benchmarks.processes import ServerProcess
from benchmarks.programs.drive_client import HELLO
from benchmarks.programs.environment import LONG_STEP_S, EchoAction, EchoObservation
from benchmarks.report import draw_thousands
from openenv.core.client.typed import TypedEnvClient
from openenv.core.env_server.types import State
from openenv.core.exceptions import OpenEnvError

GRID = tuple(2**power for power in range(5, 15))
"""Numbers of sessions."""

# Seconds within which a call has to come back.
_PATIENCE_S = 120.0
_WARM_UP = 16


class ThousandsClient(TypedEnvClient[EchoAction, EchoObservation, State]):
    """A session with the echo server."""


class Figures(NamedTuple):
    """What came out for one number of sessions.

    Attributes:
        sessions: Number of sessions.
        succeeded: Number of those whose calls all came back.
        connect_s: Seconds until all clients were connected.
        reset_s: Seconds until all were reset.
        steps_s: Seconds that each step took, in ascending order; empty if none came back.
        error: The first error, if there was any.
    """

    sessions: int
    succeeded: int
    connect_s: float
    reset_s: float
    steps_s: list[float]
    error: str = ""

    def quantile(self, share: float) -> float:
        """Return the seconds within which this share of the steps came back."""
        return self.steps_s[min(len(self.steps_s) - 1, int(share * len(self.steps_s)))] if self.steps_s else 0.0


def main(
    sessions: Annotated[list[int] | None, typer.Option(help="How many; may be given again.")] = None,
    workers: Annotated[int, typer.Option(help="Processes of the server.", min=1)] = 2,
    picture: Annotated[Path | None, typer.Option(help="File for a picture.")] = None,
) -> None:
    """Print how many of many sessions succeed, and how long their steps take."""
    titles = ("sessions", "share", "connected, s", "reset, s", "step p50, s", "step p99, s", "error")
    table = Table(*titles)
    found = []
    for count in sessions or GRID:
        found.append(figures := measure(count, workers))
        share = f"{figures.succeeded / count:.1%}"
        times = (figures.connect_s, figures.reset_s, figures.quantile(0.5), figures.quantile(0.99))
        shown = (f"{seconds:.2f}" for seconds in times)
        table.add_row(f"{count:,}", share, *shown, figures.error)
    Console().print(table)
    if picture is not None:
        rows = [(each.sessions, each.succeeded, each.connect_s, each.quantile(0.99)) for each in found]
        draw_thousands(rows, LONG_STEP_S, picture)


def measure(sessions: int, workers: int) -> Figures:
    """Open, reset and step so many sessions of a fresh server."""
    arguments = ("--environment", "waiting", "--workers", str(workers))
    with ServerProcess(OUR_PYTHON, f"{PROGRAMS}.serve_ours", arguments) as server:
        return uvloop.run(_play(server.url, sessions))


async def _play(url: str, sessions: int) -> Figures:
    clients = [_client(url) for _ in range(sessions)]
    steps_s: list[float] = []
    await _warm_up(url)
    connect_s, connected = await _timed(client.connect() for client in clients)
    reset_s, reset = await _timed(client.reset() for client in clients)
    _, stepped = await _timed(_step(client, steps_s) for client in clients)
    calls = list(zip(connected, reset, stepped, strict=True))
    errors = [repr(result) for results in calls for result in results if isinstance(result, Exception)]
    failed = sum(any(isinstance(result, Exception) for result in results) for results in calls)
    await asyncio.gather(*(client.close() for client in clients), return_exceptions=True)
    return Figures(sessions, sessions - failed, connect_s, reset_s, sorted(steps_s), errors[0][:60] if errors else "")


def _client(url: str) -> ThousandsClient:
    return ThousandsClient(base_url=url, message_timeout_s=_PATIENCE_S, connect_timeout_s=_PATIENCE_S)


async def _warm_up(url: str) -> None:
    """Connect a few clients, so that all processes of the server have started; these see no session afterwards."""
    clients = [_client(url) for _ in range(_WARM_UP)]
    await asyncio.gather(*(client.connect() for client in clients))
    await asyncio.gather(*(client.close() for client in clients))


async def _timed(calls: Iterable[Awaitable[Any]]) -> tuple[float, Sequence[Any]]:
    """Await calls together. Returns the seconds, and each call's result or ``OpenEnvError``."""
    started = time.perf_counter()
    results = await asyncio.gather(*map(_caught, calls))
    return time.perf_counter() - started, results


async def _caught(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except OpenEnvError as error:
        return error


async def _step(client: ThousandsClient, steps_s: list[float]) -> None:
    started = time.perf_counter()
    await client.step(HELLO)
    steps_s.append(time.perf_counter() - started)


if __name__ == "__main__":
    typer.run(main)
