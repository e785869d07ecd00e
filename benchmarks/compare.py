"""``python -m benchmarks.compare CHECKOUT``: CPU of the server per step, in another checkout and in this one.

The other checkout needs its own ``.venv``, as ``make install`` creates it. Both servers run at the same time, on one
core, and one client steps them in turns of a fraction of a second, so that other work on the machine meets both. The
table shows the least figure of all turns, which is the cost of a step without other work, and the ratio of these.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, NamedTuple

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.bench import OUR_PYTHON, PROGRAMS
from benchmarks.measurements.server_cpu import (
    SESSIONS,
    legacy_cpu_per_step,
    recorded_cpu_per_step,
    v1_cpu_per_step,
)
from benchmarks.processes import ServerProcess, pinned, split_cores
from benchmarks.public_package import ROOT


class Kind(NamedTuple):
    """What is compared.

    Attributes:
        name: Its name in the table.
        measure: Returns the seconds of CPU per step of a server, with so many sessions and steps.
        sessions: Number of sessions.
        environment: Name of the environment, as of ``serve_ours``.
        record: What the server keeps of the steps: ``journal`` or ``traces``; empty for nothing.
    """

    name: str
    measure: Callable[[ServerProcess, int, int], Awaitable[float]]
    sessions: int = SESSIONS
    environment: str = "non-blocking"
    record: str = ""


KINDS = (
    Kind("1 socket, BLOCKING = False", legacy_cpu_per_step, sessions=1),
    Kind("1 session on a socket (v1)", v1_cpu_per_step, sessions=1),
    Kind("64 sockets, BLOCKING = False", legacy_cpu_per_step),
    Kind("64 sessions on a socket (v1)", v1_cpu_per_step),
    Kind("1,024 sessions on a socket (v1)", v1_cpu_per_step, sessions=1024),
    Kind("64 sockets, in threads", legacy_cpu_per_step, environment="threaded"),
    Kind("64 sessions on a socket (v1), with a rubric of ten parts", v1_cpu_per_step, environment="scored"),
    Kind("64 sessions on a socket (v1), with a journal", v1_cpu_per_step, record="journal"),
    Kind("64 sessions on a socket (v1), with traces", recorded_cpu_per_step, record="traces"),
)
"""In the order of the table; kinds with the same servers, one after another, share them."""


def main(
    checkout: Annotated[Path, typer.Argument(help="Folder of the other checkout.", exists=True, file_okay=False)],
    turns: Annotated[int, typer.Option(help="Turns of each server.", min=1)] = 15,
    steps: Annotated[int, typer.Option(help="Steps in each turn, about.", min=1)] = 20_000,
    only: Annotated[str, typer.Option(metavar="TEXT", help="Compare the rows with this in their name.")] = "",
) -> None:
    """Print the CPU of each server per step, in microseconds."""
    table = Table("CPU per step, µs", "other", "this", "this/other", "other, median", "this, median")
    kinds = [kind for kind in KINDS if only in kind.name]
    for _, alike in groupby(kinds, key=attrgetter("environment", "record")):
        for kind, figures in _compare(list(alike), checkout.resolve(), turns, steps):
            other, this = map(sorted, figures)
            medians = (f"{each[len(each) // 2] * 1e6:.2f}" for each in (other, this))
            ratio = f"{this[0] / other[0]:.3f}"
            table.add_row(kind.name, f"{other[0] * 1e6:.2f}", f"{this[0] * 1e6:.2f}", ratio, *medians)
    Console().print(table)


def _compare(kinds: Sequence[Kind], checkout: Path, turns: int, steps: int) -> Iterator[tuple[Kind, list[list[float]]]]:
    """Yield for each kind the seconds of CPU per step in each turn, of the other checkout and of this.

    Args:
        kinds: What is compared, one after another, on the same two servers.
        checkout: Folder of the other checkout.
        turns: Turns of each server.
        steps: Steps in each turn.
    """
    servers_core, clients_core = split_cores()
    pythons = (checkout / ".venv" / "bin" / "python", OUR_PYTHON)
    with ExitStack() as stack, pinned(clients_core):
        servers = [
            stack.enter_context(
                ServerProcess(python, f"{PROGRAMS}.serve_ours", _arguments(kinds[0], stack), servers_core, root)
            )
            for python, root in zip(pythons, (checkout, ROOT), strict=True)
        ]
        for kind in kinds:
            figures: list[list[float]] = [[], []]
            for _ in range(turns):
                for number, server in enumerate(servers):
                    figures[number].append(uvloop.run(_turn(kind, server, steps)))
            yield kind, figures


async def _turn(kind: Kind, server: ServerProcess, steps: int) -> float:
    return await kind.measure(server, kind.sessions, steps)


def _arguments(kind: Kind, stack: ExitStack) -> tuple[str, ...]:
    environment = ("--environment", kind.environment)
    if not kind.record:
        return environment
    folder = stack.enter_context(TemporaryDirectory(prefix="openenv-record-"))
    return (*environment, f"--{kind.record}={Path(folder) / 'record'}")


if __name__ == "__main__":
    typer.run(main)
