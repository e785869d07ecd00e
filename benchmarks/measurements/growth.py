"""How cost grows with the number of sessions."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import uvloop

from benchmarks.bench import Bench
from benchmarks.effort import Effort
from benchmarks.processes import ServerProcess
from benchmarks.wire_client import WireSession, open_sessions, step_all
from benchmarks.wire_client_v1 import V1Socket, step_all_v1

COUNTS = (1, 10, 100, 1_000, 10_000)
SESSIONS_PER_SOCKET = 1_000
"""So many sessions of v1 share a socket before the next one is opened."""

OURS_V1 = "ours, 1,000 on a socket (v1)"

# The row compares the most sessions with these: with fewer, a frame's own cost falls on too few steps.
_MANY = 100


@dataclass(frozen=True)
class Point:
    """What a server costs with some number of sessions: CPU seconds per step, and bytes of memory in all."""

    sessions: int
    cpu: float
    memory: int


def sessions(bench: Bench) -> None:
    """Step 1 to 10,000 sessions on one and more sockets (v1), and 1 to 1,000 with a socket each (legacy)."""
    effort = bench.effort
    for series, server, follow, most in (
        ("floor, a socket each", "floor", _follow_legacy, effort.most_sockets),
        ("public, a socket each", "public", _follow_legacy, effort.most_public_sockets),
        ("ours, a socket each", "ours", _follow_legacy, effort.most_sockets),
        ("floor, 1,000 on a socket", "floor", _follow_v1, COUNTS[-1]),
        (OURS_V1, "ours", _follow_v1, COUNTS[-1]),
    ):
        counts = tuple(count for count in COUNTS if count <= most)
        points = _points(bench, server, follow, counts, effort) if counts else []
        for point in points:
            bench.samples.add_point("cpu_per_step", series, point.sessions, point.cpu)
            bench.samples.add_point("memory", series, point.sessions, point.memory)
        if series == OURS_V1:
            cpu = {point.sessions: point.cpu for point in points}
            bench.samples.add("cpu_growth", "ours", cpu[COUNTS[-1]] / cpu[_MANY])


Follow = Callable[[ServerProcess, tuple[int, ...], Effort], Coroutine[Any, Any, list[Point]]]


def _points(bench: Bench, name: str, follow: Follow, counts: tuple[int, ...], effort: Effort) -> list[Point]:
    with bench.fresh_server(name) as server:
        return uvloop.run(follow(server, counts, effort))


async def _follow_legacy(server: ServerProcess, counts: tuple[int, ...], effort: Effort) -> list[Point]:
    opened: list[WireSession] = []
    points = []
    for count in counts:
        opened += await open_sessions(server.port, count - len(opened))
        await step_all(opened, effort.least_steps)
        each = max(effort.least_steps, effort.growth_steps // count)
        before = server.cpu_seconds()
        await step_all(opened, each)
        points.append(Point(count, (server.cpu_seconds() - before) / (count * each), server.memory_bytes()))
    for session in opened:
        session.close()
    return points


async def _follow_v1(server: ServerProcess, counts: tuple[int, ...], effort: Effort) -> list[Point]:
    sockets = [await V1Socket.connect(server.port)]
    points = []
    for count in counts:
        await _open_up_to(count, sockets, server.port)
        await step_all_v1(sockets, effort.least_steps)
        each = max(effort.least_steps, effort.growth_steps // count)
        before = server.cpu_seconds()
        await step_all_v1(sockets, each)
        points.append(Point(count, (server.cpu_seconds() - before) / (count * each), server.memory_bytes()))
    for socket in sockets:
        socket.close()
    return points


async def _open_up_to(count: int, sockets: list[V1Socket], port: int) -> None:
    """Open sessions until there are ``count``, on further sockets where those that there are hold enough."""
    while (missing := count - sum(len(socket.sessions) for socket in sockets)) > 0:
        room = SESSIONS_PER_SOCKET - len(sockets[-1].sessions)
        if room == 0:
            sockets.append(await V1Socket.connect(port))
        else:
            await sockets[-1].open_sessions(min(room, missing))
