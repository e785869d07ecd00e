"""What a server carries with one worker and with two."""

import time
from typing import NamedTuple

import uvloop

from benchmarks.bench import Bench
from benchmarks.measurements.server_cpu import SESSIONS
from benchmarks.processes import ServerProcess, every_core
from benchmarks.wire_client_v1 import connect_v1, step_all_v1

COUNTS = (1, 2)

# Two for each worker: while the client takes the answers of one, the other keeps the worker busy.
_SOCKETS = 4
_WARM_UP_STEPS = 5


class Carried(NamedTuple):
    """Steps per second, seconds of CPU per step of all the server's processes, and the client's part of all cores."""

    rate: float
    cpu: float
    client: float


def workers(bench: Bench) -> None:
    """Step 64 sessions at once, each step 200 µs of CPU, so that the client on the same cores is a small part."""
    rates = []
    for count in COUNTS:
        carried = _carried(bench, "ours_busy", count)
        bench.samples.add_point("workers_rate", "ours", count, carried.rate)
        bench.samples.add_point("workers_client", "ours", count, carried.client)
        rates.append(carried.rate)
        bench.samples.add_point("workers_cpu_per_step", "ours", count, _carried(bench, "ours", count).cpu)
    bench.samples.add("workers", "ours", rates[1] / rates[0])


def _carried(bench: Bench, name: str, count: int) -> Carried:
    with bench.unpinned(), bench.fresh_server(name, f"--workers={count}", anywhere=True) as server:
        return uvloop.run(_step(server, bench.effort.worker_steps))


async def _step(server: ServerProcess, steps: int) -> Carried:
    sockets = await connect_v1(server.port, _SOCKETS, SESSIONS // _SOCKETS)
    await step_all_v1(sockets, _WARM_UP_STEPS)
    rounds = max(1, steps // SESSIONS)
    server_before, client_before, started = server.cpu_seconds(), time.process_time(), time.perf_counter()
    await step_all_v1(sockets, rounds)
    seconds = time.perf_counter() - started
    client = time.process_time() - client_before
    cpu = server.cpu_seconds() - server_before
    for socket in sockets:
        socket.close()
    done = rounds * SESSIONS
    return Carried(done / seconds, cpu / done, client / seconds / (len(every_core()) or 1))
