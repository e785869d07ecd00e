"""``python -m benchmarks.step_costs``: CPU of the server per step, by wire and by what the server is to do.

All servers run at the same time, on one core, and one client steps them in turns of a fraction of a second, so that
other work on the machine meets all of them. The table shows the least figure of all turns, which is the cost of a step
without other work, and the median. The CPU of all processes of a server counts.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, NamedTuple

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.bench import OUR_PYTHON, PROGRAMS
from benchmarks.measurements.server_cpu import (
    SESSIONS,
    followed_cpu_per_step,
    legacy_cpu_per_step,
    recorded_cpu_per_step,
    v1_cpu_per_step,
)
from benchmarks.processes import ServerProcess, pinned, split_cores
from benchmarks.wire_client_v1 import ArraysSocket, MessagesSocket

_FEW_SESSIONS = 8


class Kind(NamedTuple):
    """What is measured.

    Attributes:
        name: Its name in the table.
        measure: Returns the seconds of CPU per step of a server, with so many sessions and steps.
        sessions: Number of sessions.
        options: Options of the server's program; ``{}`` stands for a folder of its own.
    """

    name: str
    measure: Callable[[ServerProcess, int, int], Awaitable[float]]
    sessions: int = SESSIONS
    options: tuple[str, ...] = ("--environment", "non-blocking")


KINDS = (
    Kind("64 sockets, legacy wire", legacy_cpu_per_step),
    Kind("the same, in threads", legacy_cpu_per_step, options=("--environment", "threaded")),
    Kind("64 sessions on a socket, v1, a message each", partial(v1_cpu_per_step, kind=MessagesSocket)),
    Kind("64 sessions on a socket, v1, with columns", v1_cpu_per_step),
    Kind("the same, 1,024 sessions", v1_cpu_per_step, 1024),
    Kind("64 sessions, v1 with columns, in threads", v1_cpu_per_step, options=("--environment", "threaded")),
    Kind("with a journal", v1_cpu_per_step, options=("--environment", "non-blocking", "--journal", "{}/journal")),
    Kind("with traces", recorded_cpu_per_step, options=("--environment", "non-blocking", "--traces", "{}/traces")),
    Kind("with one of the sessions followed on the page", followed_cpu_per_step),
    Kind("with each of the sessions followed", partial(followed_cpu_per_step, followed=SESSIONS)),
    Kind("with a rubric of ten parts", v1_cpu_per_step, options=("--environment", "scored")),
    Kind(
        "8 sessions, v1 with columns, isolation in processes",
        v1_cpu_per_step,
        _FEW_SESSIONS,
        ("--environment", "non-blocking", "--isolation", "process"),
    ),
    Kind(
        "8 sessions, v1, pictures of 84x84x4 as bytes",
        partial(v1_cpu_per_step, kind=ArraysSocket),
        _FEW_SESSIONS,
        ("--environment", "screen"),
    ),
)


def main(
    turns: Annotated[int, typer.Option(help="Turns of each server.", min=1)] = 9,
    steps: Annotated[int, typer.Option(help="Steps in each turn, about.", min=1)] = 6_000,
    only: Annotated[str, typer.Option(metavar="TEXT", help="Measure the rows with this in their name.")] = "",
) -> None:
    """Print the CPU of a server per step, in microseconds, by wire and by what the server is to do."""
    table = Table("server", "CPU per step, µs", "median")
    kinds = [kind for kind in KINDS if only in kind.name]
    for kind, figures in zip(kinds, measure(kinds, turns, steps), strict=True):
        table.add_row(kind.name, f"{min(figures) * 1e6:.1f}", f"{median(figures) * 1e6:.1f}")
    Console().print(table)


def measure(kinds: Sequence[Kind], turns: int, steps: int) -> list[list[float]]:
    """Return the seconds of CPU per step of each kind, in each turn."""
    servers_core, clients_core = split_cores()
    figures: list[list[float]] = [[] for _ in kinds]
    with ExitStack() as stack, pinned(clients_core):
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="openenv-step-costs-")))
        servers: dict[tuple[str, ...], ServerProcess] = {}
        for kind in kinds:
            if kind.options not in servers:
                options = [option.replace("{}", str(folder)) for option in kind.options]
                server = ServerProcess(OUR_PYTHON, f"{PROGRAMS}.serve_ours", options, servers_core)
                servers[kind.options] = stack.enter_context(server)
        for _ in range(turns):
            for kind, found in zip(kinds, figures, strict=True):
                found.append(uvloop.run(_turn(kind, servers[kind.options], steps)))
    return figures


async def _turn(kind: Kind, server: ServerProcess, steps: int) -> float:
    return await kind.measure(server, kind.sessions, steps)


if __name__ == "__main__":
    typer.run(main)
