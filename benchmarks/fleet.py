"""``python -m benchmarks.fleet``: what a fleet carries beside one server, and how long its own work takes.

One and the same client, our own vector, steps all sessions at once: with one server, with two workers, and with fleets.
On a machine with few cores the client takes a part of them, which the table says.
"""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import psutil
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.bench import Bench
from benchmarks.effort import FULL
from benchmarks.programs.environment import ENVIRONMENTS
from openenv import GenericEnvClient
from openenv.fleet import Fleet

SESSIONS = 2000
_WARM_UP = 3
_SECONDS = 5.0
"""How long all sessions are stepped, about."""
_HANDSHAKES = 100
_ACTION = {"message": "hello"}


class Carried(NamedTuple):
    """Steps per second, seconds to open all sessions, and the client's part of the cores that were there."""

    rate: float
    open_s: float
    client: float


class Overhead(NamedTuple):
    """Seconds until the fleet is up, for one more replica, a handshake, and from a killed replica to the next step.

    And the memory of a replica without sessions, and of Ray without replicas, in MiB that no other process shares.
    """

    up: float
    scale: float
    handshake: float
    killed: float
    replica_mib: float
    ray_mib: float


def main(
    replicas: Annotated[list[int] | None, typer.Option(help="Sizes of fleets; may be given again.")] = None,
    sessions: Annotated[int, typer.Option(help="Sessions that are stepped at once.")] = SESSIONS,
) -> None:
    """Print what one server, two workers and fleets carry, and what a fleet's own work takes."""
    table = Table("served by", "environment", "steps/s", f"{sessions:,} opened in", "client's part of the cores")
    for name in ("non-blocking", "busy"):
        for how, carried in _carried(name, sessions, replicas or [1, 2, 4]):
            table.add_row(how, name, f"{carried.rate:,.0f}", f"{carried.open_s:.2f} s", f"{carried.client:.0%}")
    console = Console()
    console.print(table)
    overhead = _overhead(max(replicas or [4]), sessions)
    console.print(
        f"up in {overhead.up:.1f} s, one more replica in {overhead.scale:.1f} s, a session opened by itself in "
        f"{overhead.handshake * 1e3:.2f} ms; {sessions:,} sessions went on {overhead.killed:.1f} s after a replica "
        f"was killed; a replica takes {overhead.replica_mib:.0f} MiB, Ray {overhead.ray_mib:.0f} MiB"
    )


def _carried(name: str, sessions: int, sizes: list[int]) -> Iterator[tuple[str, Carried]]:
    with Bench(FULL, set()) as bench, bench.unpinned():
        for workers in (1, 2):
            server_name = "ours" if name == "non-blocking" else f"ours_{name}"
            with bench.fresh_server(server_name, f"--workers={workers}", anywhere=True) as server:
                how = "one server" if workers == 1 else f"{workers} workers"
                yield how, asyncio.run(_step(f"http://127.0.0.1:{server.port}", sessions))
        for size in sizes:
            with Fleet(ENVIRONMENTS[name], replicas=size, max_sessions=sessions) as fleet:
                yield f"a fleet of {size}", asyncio.run(_step(fleet.address, sessions))


async def _step(address: str, sessions: int) -> Carried:
    async with GenericEnvClient(base_url=address) as client:
        began = time.perf_counter()
        vector = await client.vector(sessions)
        open_s = time.perf_counter() - began
        await vector.reset()
        actions = [_ACTION] * sessions
        for _ in range(_WARM_UP):
            await vector.step(actions)
        steps, cpu_s, began = 0, time.process_time(), time.perf_counter()
        while time.perf_counter() - began < _SECONDS:
            _check(await vector.step(actions))
            steps += sessions
        seconds, spent_s = time.perf_counter() - began, time.process_time() - cpu_s
        return Carried(steps / seconds, open_s, spent_s / seconds / (os.cpu_count() or 1))


def _overhead(replicas: int, sessions: int) -> Overhead:
    with TemporaryDirectory(prefix="openenv-fleet-") as folder:
        began = time.perf_counter()
        settings: Any = {"journal": f"{folder}/journal", "max_sessions": sessions}
        with Fleet(ENVIRONMENTS["non-blocking"], replicas=replicas, **settings) as fleet:
            up_s = time.perf_counter() - began
            replica_mib, ray_mib = _memory(fleet)
            began = time.perf_counter()
            fleet.scale(replicas + 1)
            scale_s = time.perf_counter() - began
            handshake_s, killed_s = asyncio.run(_opened_and_killed(fleet, sessions))
            return Overhead(up_s, scale_s, handshake_s, killed_s, replica_mib, ray_mib)


def _memory(fleet: Fleet) -> tuple[float, float]:
    """Measure what a replica takes, the median of them, and all that the fleet's own Ray runs besides."""
    used: dict[int, float] = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # Ray ends processes that have nothing to do
            used[process.pid] = process.memory_full_info().uss / 2**20
    replicas = [used.pop(replica.pid) for replica in fleet.status().replicas]
    return median(replicas), sum(used.values())


async def _opened_and_killed(fleet: Fleet, sessions: int) -> tuple[float, float]:
    async with GenericEnvClient(base_url=fleet.address) as client:
        await client.reset()
        opened: list[float] = []
        for _ in range(_HANDSHAKES):
            with _timed(opened):
                await client.new_session()
        vector = await client.vector(sessions)
        await vector.reset(seeds=range(sessions))
        os.kill(fleet.status().replicas[0].pid, signal.SIGKILL)
        lasted: list[float] = []
        with _timed(lasted):
            _check(await vector.step([_ACTION] * sessions))
        return median(opened), lasted[0]


@contextmanager
def _timed(durations: list[float]) -> Iterator[None]:
    began = time.perf_counter()
    yield
    durations.append(time.perf_counter() - began)


def _check(results: list[Any]) -> None:
    failed = [result for result in results if isinstance(result, Exception)]
    if failed:
        raise failed[0]


if __name__ == "__main__":
    typer.run(main)
