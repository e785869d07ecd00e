"""What it costs to record what sessions do: a journal, and traces."""

import asyncio
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import uvloop

from benchmarks.bench import Bench
from benchmarks.measurements.server_cpu import SESSIONS, WRITTEN_AFTER_S
from benchmarks.processes import ServerProcess
from benchmarks.wire_client_v1 import V1Socket, connect_v1

# The two servers are stepped in turns, since what disturbs one of them for a moment would look like a difference.
# A turn takes some seconds, in each of which traces are written four times, and begins after steps that are not timed,
# so that the writing goes on from its beginning.
_TURNS = 2
_WARM_UP_SHARE = 0.2
_EPISODE_STEPS = 300


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
                figures.append(uvloop.run(_rate(server, bench.effort.record_steps)))
    bench.samples.add(option, "ours", median(rates[recording]) / median(rates[without]))


async def _rate(server: ServerProcess, steps: int) -> float:
    """Return how many steps a second the server carries out, while it writes those before them."""
    (socket,) = await connect_v1(server.port, 1, SESSIONS)
    each = max(1, steps // SESSIONS)
    await _play(socket, max(1, round(each * _WARM_UP_SHARE)))
    started = time.perf_counter()
    await _play(socket, each)
    seconds = time.perf_counter() - started
    socket.close()
    await asyncio.sleep(WRITTEN_AFTER_S)  # what is still written would be on the core of the other server
    return SESSIONS * each / seconds


async def _play(socket: V1Socket, steps: int) -> None:
    """Let every session do so many steps, in episodes of a usual length: of a long one, less is kept for a replay."""
    for start in range(0, steps, _EPISODE_STEPS):
        await socket.reset()
        await socket.step(min(_EPISODE_STEPS, steps - start))
