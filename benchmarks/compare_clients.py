"""``python -m benchmarks.compare_clients CHECKOUT``: a client's step in another checkout and in this one.

The other checkout needs its own ``.venv``, as ``make install`` creates it. The clients of both step one session of this
checkout's server in turns, with the bare client before them, so that other work on the machine meets all of them.

Further bare clients show what any client pays for the wire, for asyncio's own loop in place of uvloop, and for awaiting
each answer and reading its JSON.
"""

import asyncio
import json
import statistics
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.bench import OUR_PYTHON, PROGRAMS
from benchmarks.measurements.latency import awaited_round_trip_v1, bare_round_trip, bare_round_trip_v1
from benchmarks.processes import ServerProcess, pinned, split_cores
from benchmarks.public_package import ROOT

MODES = ("async", "uvloop", "sync")
"""The async client on asyncio's own loop and on uvloop, and the sync client."""

_Step = Callable[[ServerProcess, int], Coroutine[Any, Any, float]]
_BARE: dict[str, tuple[_Step, Callable[[Coroutine[Any, Any, float]], float]]] = {
    "bare": (bare_round_trip, uvloop.run),
    "bare, v1": (bare_round_trip_v1, uvloop.run),
    "bare, v1, asyncio": (bare_round_trip_v1, asyncio.run),
    "awaited, v1, uvloop": (awaited_round_trip_v1, uvloop.run),
    "awaited, v1, asyncio": (awaited_round_trip_v1, asyncio.run),
}


class Timing(NamedTuple):
    """What a turn has measured, in seconds.

    Attributes:
        round_trip: Median of its steps.
        cpu: CPU of the client's process per step.
    """

    round_trip: float
    cpu: float


def main(
    checkout: Annotated[Path, typer.Argument(help="Folder of the other checkout.", exists=True, file_okay=False)],
    turns: Annotated[int, typer.Option(help="Turns of each client.", min=1)] = 10,
    steps: Annotated[int, typer.Option(help="Steps in each turn.", min=1)] = 1000,
) -> None:
    """Print the round trip and the CPU of each client per step, in microseconds: the medians of its turns."""
    timings = _compare(checkout.resolve(), turns, steps)
    bare = statistics.median(timing.round_trip for timing in timings["bare"])
    table = Table("client", "round trip p50, µs", "of the bare client's", "CPU per step, µs", "least CPU, µs")
    for name, taken in timings.items():
        round_trip = statistics.median(timing.round_trip for timing in taken)
        cpu = sorted(timing.cpu for timing in taken)
        shown = (round_trip * 1e6, round_trip / bare, statistics.median(cpu) * 1e6, cpu[0] * 1e6)
        table.add_row(name, *(f"{figure:.{2 if figure < 10 else 0}f}" for figure in shown))
    Console().print(table)


def _compare(other: Path, turns: int, steps: int) -> dict[str, list[Timing]]:
    servers_core, clients_core = split_cores()
    timings: dict[str, list[Timing]] = defaultdict(list)
    environment = ("--environment", "non-blocking")
    with (
        pinned(clients_core),
        ServerProcess(OUR_PYTHON, f"{PROGRAMS}.serve_ours", environment, servers_core) as server,
    ):
        for _ in range(turns):
            for name, (step, run) in _BARE.items():
                timings[name].append(_bare(step, run, server, steps))
            for mode in MODES:
                timings[f"{mode}, other"].append(_drive(other, mode, server, steps))
                timings[f"{mode}, this"].append(_drive(ROOT, mode, server, steps))
    return timings


def _bare(step: _Step, run: Callable[[Coroutine[Any, Any, float]], float], server: ServerProcess, steps: int) -> Timing:
    cpu = time.process_time()
    round_trip = run(step(server, steps))
    return Timing(round_trip, (time.process_time() - cpu) / steps)


def _drive(checkout: Path, mode: str, server: ServerProcess, steps: int) -> Timing:
    """Run this checkout's program with the package of a checkout."""
    program = ("-m", f"{PROGRAMS}.time_client", mode, "--url", server.url, "--steps", str(steps))
    python = checkout / ".venv" / "bin" / "python"
    finished = subprocess.run([str(python), *program], stdout=subprocess.PIPE, check=True, cwd=ROOT)
    return Timing(*json.loads(finished.stdout))


if __name__ == "__main__":
    typer.run(main)
