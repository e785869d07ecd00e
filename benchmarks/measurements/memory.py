"""The server's memory for sessions that were reset and then left alone."""

from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from benchmarks.bench import Bench
from benchmarks.processes import ServerProcess
from benchmarks.wire_client import open_sessions
from benchmarks.wire_client_v1 import V1Socket

Measured = Callable[[ServerProcess, int], Coroutine[Any, Any, float]]

# So many sessions that what the first ones load and reserve is not counted.
FIRST_SESSIONS = 20


def idle_sessions(bench: Bench) -> None:
    """Leave sessions alone: those of one socket (v1), and those with a socket each (legacy)."""
    bench.samples.add("memory_legacy", "floor", _of_a_fresh_server(bench, "floor", _legacy))
    bench.samples.add("memory_legacy", "ours", _of_a_fresh_server(bench, "ours", _legacy))
    bench.samples.add("memory", "ours", _of_a_fresh_server(bench, "ours", _v1))
    public = _of_a_fresh_server(bench, "public", _legacy)  # it has no other way
    for row in ("memory", "memory_legacy"):
        bench.samples.add(row, "public", public)


def _of_a_fresh_server(bench: Bench, name: str, measured: Measured) -> float:
    # Memory that an earlier measurement left free would hide what sessions need.
    with bench.fresh_server(name) as server:
        return uvloop.run(measured(server, bench.effort.idle_sessions))


async def _legacy(server: ServerProcess, count: int) -> float:
    first = await open_sessions(server.port, FIRST_SESSIONS)
    before = server.memory_bytes()
    idle = await open_sessions(server.port, count)
    used = server.memory_bytes() - before
    for session in first + idle:
        session.close()
    return used / count


async def _v1(server: ServerProcess, count: int) -> float:
    socket = await V1Socket.connect(server.port)
    await socket.open_sessions(FIRST_SESSIONS)
    before = server.memory_bytes()
    for _ in range(count):
        await socket.open_sessions(1)
    used = server.memory_bytes() - before
    socket.close()
    return used / count
