"""``python -m benchmarks.journals --postgres ADDRESS``: steps per second without a journal and with each kind of one.

For each number of sessions there is a fresh server of each kind, all beside one another, which are stepped in turns:
what disturbs one of them for a moment would look like a difference. Sessions share a socket, and step all at once.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.bench import Bench
from benchmarks.effort import FULL
from benchmarks.processes import ServerProcess
from benchmarks.wire_client_v1 import connect_v1, step_all_v1

SESSIONS = (1, 64, 1024)
_TURNS = 5
_WARM_UP = 20


def main(
    postgres: Annotated[str | None, typer.Option(help="Address of a database that holds nothing.")] = None,
    sessions: Annotated[list[int] | None, typer.Option(help="How many; may be given again.")] = None,
    seconds: Annotated[float, typer.Option(help="How long each of five turns takes, about.")] = 2.0,
) -> None:
    """Print steps per second, and CPU of the server's process per step."""
    table = Table("sessions", "journal", "steps/s", "CPU per step, µs")
    for count in sessions or SESSIONS:
        for kind, (rate, cpu_s) in _measure(count, postgres, seconds).items():
            table.add_row(f"{count:,}", kind, f"{rate:,.0f}", f"{cpu_s * 1e6:.1f}")
    Console().print(table)


def _measure(sessions: int, postgres: str | None, turn_s: float) -> dict[str, tuple[float, float]]:
    """Measure each kind of journal; give steps per second and seconds of CPU per step, medians of the turns."""
    with TemporaryDirectory(prefix="openenv-journal-") as folder, Bench(FULL, set()) as bench, ExitStack() as running:
        journals = {"none": [], "SQLite": [f"--journal={Path(folder) / 'journal'}"]}
        if postgres is not None:
            journals["PostgreSQL"] = [f"--journal={postgres}"]
        servers = {kind: running.enter_context(bench.fresh_server("ours", *how)) for kind, how in journals.items()}
        figures: dict[str, list[tuple[float, float]]] = {kind: [] for kind in servers}
        for _ in range(_TURNS):
            for kind, server in servers.items():
                figures[kind].append(uvloop.run(_turn(server, sessions, turn_s)))
    return {kind: (median(_column(taken, 0)), median(_column(taken, 1))) for kind, taken in figures.items()}


def _column(figures: Sequence[tuple[float, float]], number: int) -> list[float]:
    return [figure[number] for figure in figures]


async def _turn(server: ServerProcess, sessions: int, turn_s: float) -> tuple[float, float]:
    """Step for a while. Returns steps per second, and seconds of CPU per step."""
    sockets = await connect_v1(server.port, 1, sessions)
    await step_all_v1(sockets, _WARM_UP)
    rounds, steps = max(1, 1024 // sessions), 0
    began, cpu_s = time.perf_counter(), server.cpu_seconds()
    while not steps or time.perf_counter() - began < turn_s:
        await step_all_v1(sockets, rounds)
        steps += rounds * sessions
    seconds, spent_s = time.perf_counter() - began, server.cpu_seconds() - cpu_s
    sockets[0].close()
    return steps / seconds, spent_s / steps


if __name__ == "__main__":
    typer.run(main)
