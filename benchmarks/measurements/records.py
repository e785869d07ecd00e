"""What it costs to record what sessions do: a journal, and traces."""

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import uvloop

from benchmarks.bench import Bench
from benchmarks.measurements.server_cpu import SESSIONS, WARM_UP_STEPS
from benchmarks.processes import ServerProcess
from benchmarks.wire_client_v1 import connect_v1, step_all_v1

# The two servers are stepped in turns, since what disturbs one of them for a moment would look like a difference.
_TURNS = 5


def journal(bench: Bench) -> None:
    """Step 64 sessions of one socket at once, on a server with a journal and on one without."""
    _record(bench, "journal")


def traces(bench: Bench) -> None:
    """Step 64 sessions of one socket at once, on a server with traces and on one without."""
    _record(bench, "traces")


def _record(bench: Bench, option: str) -> None:
    with (
        TemporaryDirectory(prefix="openenv-records-") as folder,
        bench.fresh_server("ours") as without,
        bench.fresh_server("ours", f"--{option}={Path(folder) / option}") as recording,
    ):
        rates: dict[ServerProcess, list[float]] = {without: [], recording: []}
        for _ in range(_TURNS):
            for server, figures in rates.items():
                figures.append(uvloop.run(_rate(server, bench.effort.journal_steps // _TURNS)))
    bench.samples.add(option, "ours", median(rates[recording]) / median(rates[without]))


async def _rate(server: ServerProcess, steps: int) -> float:
    """Return how many steps a second the server carries out."""
    sockets = await connect_v1(server.port, 1, SESSIONS)
    await step_all_v1(sockets, WARM_UP_STEPS)
    each = max(1, steps // SESSIONS)
    started = time.perf_counter()
    await step_all_v1(sockets, each)
    seconds = time.perf_counter() - started
    sockets[0].close()
    return SESSIONS * each / seconds
