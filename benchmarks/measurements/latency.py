"""How long a client waits: for a step, and for a session."""

import statistics
import time

import uvloop

from benchmarks.bench import Bench
from benchmarks.measurements.server_cpu import WARM_UP_STEPS
from benchmarks.processes import ServerProcess
from benchmarks.wire_client import WireSession, check_answer, open_sessions, step_all
from benchmarks.wire_client_v1 import V1Socket, connect_v1


def floor(bench: Bench) -> None:
    """Measure the bare echo server, with which the other budgets grow."""
    bench.samples.add(
        "round_trip", "floor", uvloop.run(bare_round_trip(bench.server("floor"), bench.effort.round_trips))
    )


def round_trip(bench: Bench) -> None:
    """Step one session of the legacy wire with the bare client."""
    for name in ("public", "ours"):
        bench.samples.add("round_trip", name, uvloop.run(bare_round_trip(bench.server(name), bench.effort.round_trips)))


async def bare_round_trip(server: ServerProcess, steps: int) -> float:
    """Return the median seconds of a step of the bare client, on the legacy wire."""
    opened = await open_sessions(server.port, 1)
    await step_all(opened, WARM_UP_STEPS)
    latencies = await step_all(opened, steps)
    opened[0].close()
    return statistics.median(latencies)


def round_trip_v1(bench: Bench) -> None:
    """Step one session of v1 with the bare client; our own clients speak v1."""
    for name in ("floor", "ours"):
        seconds = uvloop.run(bare_round_trip_v1(bench.server(name), bench.effort.round_trips))
        bench.samples.add("round_trip_v1", name, seconds)


async def bare_round_trip_v1(server: ServerProcess, steps: int) -> float:
    """Return the median seconds of a step of the bare client, on v1."""
    (socket,) = await connect_v1(server.port, 1, 1)
    await socket.step(WARM_UP_STEPS)
    await socket.step(steps)
    socket.close()
    return statistics.median(socket.latencies)


async def awaited_round_trip_v1(server: ServerProcess, steps: int) -> float:
    """Return the median seconds of a step that is awaited and whose answer is read, on v1: the least of any client."""
    (socket,) = await connect_v1(server.port, 1, 1)
    await socket.step(WARM_UP_STEPS)
    latencies = []
    for _ in range(steps):
        started = time.perf_counter()
        await socket.step(1)
        latencies.append(time.perf_counter() - started)
    socket.close()
    return statistics.median(latencies)


def round_trip_async(bench: Bench) -> None:
    """Step one session with each package's own async client."""
    _drive_both(bench, "round_trip_async", "async", bench.effort.round_trips)


def round_trip_sync(bench: Bench) -> None:
    """Step one session with each package's own sync client."""
    _drive_both(bench, "round_trip_sync", "sync", bench.effort.round_trips)


def threaded_clients(bench: Bench) -> None:
    """Step 64 sessions with each package's own sync clients, in a thread each."""
    _drive_both(bench, "threaded_clients", "threads", bench.effort.threaded_steps)


def _drive_both(bench: Bench, row: str, mode: str, steps: int) -> None:
    for name in ("public", "ours"):
        figure = bench.drive(name, "drive_client", mode, "--url", bench.server(name).url, "--steps", str(steps))
        bench.samples.add(row, name, figure)


def open_and_reset(bench: Bench) -> None:
    """Open sessions one after another, and reset each: on one socket (v1), and with a socket each (legacy)."""
    count = bench.effort.openings
    for name in ("floor", "public", "ours"):
        legacy = uvloop.run(_open_and_reset_legacy(bench.server(name), count))
        bench.samples.add("open_reset_legacy", name, legacy)
        if name == "public":  # it has no other way
            bench.samples.add("open_reset", name, legacy)
        else:
            bench.samples.add("open_reset", name, uvloop.run(_open_and_reset_v1(bench.server(name), count)))


async def _open_and_reset_legacy(server: ServerProcess, count: int) -> float:
    opened, seconds = [], []
    for _ in range(count):
        started = time.perf_counter()
        session = await WireSession.connect(server.port)
        check_answer(await session.ask({"type": "reset"}))
        seconds.append(time.perf_counter() - started)
        opened.append(session)
    for session in opened:
        session.close()
    return statistics.median(seconds)


async def _open_and_reset_v1(server: ServerProcess, count: int) -> float:
    socket = await V1Socket.connect(server.port)
    await socket.open_sessions(1)
    seconds = []
    for _ in range(count):
        started = time.perf_counter()
        await socket.open_sessions(1)
        seconds.append(time.perf_counter() - started)
    socket.close()
    return statistics.median(seconds)
