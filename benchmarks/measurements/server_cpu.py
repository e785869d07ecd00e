"""The CPU time that a step takes of the server's process."""

import asyncio
import json

import uvloop
from websockets.asyncio.client import connect

from benchmarks.bench import Bench
from benchmarks.processes import ServerProcess
from benchmarks.wire_client import open_sessions, step_all
from benchmarks.wire_client_v1 import MessagesSocket, V1Socket, connect_v1, step_all_v1
from openenv.core.wire.names import public_name

SESSIONS = 64
WARM_UP_STEPS = 20
WRITTEN_AFTER_S = 0.5
"""Time after which a server has written what it records of the last steps."""

# Time in which all followers have what came before.
_FOLLOWERS_BEGIN_S = 1.0


def floor(bench: Bench) -> None:
    """Measure the bare echo server, with which the other budgets grow."""
    figure = uvloop.run(legacy_cpu_per_step(bench.server("floor"), SESSIONS, bench.effort.cpu_steps))
    for row in ("cpu_non_blocking", "cpu_threaded"):
        bench.samples.add(row, "floor", figure)


def legacy_wire(bench: Bench) -> None:
    """Step 64 sockets at once."""
    steps = bench.effort.cpu_steps
    # The public package has one way to run an environment: its figure serves both rows.
    public = uvloop.run(legacy_cpu_per_step(bench.server("public"), SESSIONS, steps))
    for row, server in (("cpu_non_blocking", "ours"), ("cpu_threaded", "ours_threaded")):
        if row in bench.rows:
            bench.samples.add(row, "public", public)
            bench.samples.add(row, "ours", uvloop.run(legacy_cpu_per_step(bench.server(server), SESSIONS, steps)))


async def legacy_cpu_per_step(server: ServerProcess, sessions: int, steps: int) -> float:
    """Return the seconds of CPU that a step takes of a server with as many sockets as sessions, stepped at once."""
    opened = await open_sessions(server.port, sessions)
    await step_all(opened, WARM_UP_STEPS)
    each = max(1, steps // sessions)
    before = server.cpu_seconds()
    await step_all(opened, each)
    spent = server.cpu_seconds() - before
    for session in opened:
        session.close()
    return spent / (sessions * each)


def v1_64(bench: Bench) -> None:
    """Step 64 sessions of one socket at once."""
    _v1_row(bench, "cpu_v1_64", SESSIONS)


def v1_1024(bench: Bench) -> None:
    """Step 1,024 sessions of one socket at once."""
    _v1_row(bench, "cpu_v1_1024", 1024)


def v1_messages(bench: Bench) -> None:
    """Step 64 sessions of one socket at once, by a message each."""
    cost = v1_cpu_per_step(bench.server("ours"), SESSIONS, bench.effort.cpu_steps, MessagesSocket)
    bench.samples.add("cpu_v1_messages", "ours", uvloop.run(cost))


def rubric(bench: Bench) -> None:
    """Step 64 sessions with a rubric of ten parts, and without, in turns."""
    costs = [
        uvloop.run(v1_cpu_per_step(bench.server(name), SESSIONS, bench.effort.cpu_steps))
        for name in ("ours", "ours_scored")
    ]
    bench.samples.add("rubric", "ours", costs[1] - costs[0])


def _v1_row(bench: Bench, row: str, sessions: int) -> None:
    for name in ("floor", "ours"):
        bench.samples.add(row, name, uvloop.run(v1_cpu_per_step(bench.server(name), sessions, bench.effort.cpu_steps)))


async def followed_cpu_per_step(server: ServerProcess, sessions: int, steps: int, followed: int = 1) -> float:
    """Return the seconds of CPU that a step takes as ``v1_cpu_per_step`` does, while some of the sessions are followed.

    Args:
        server: The server.
        sessions: Number of sessions, all on one socket.
        steps: Number of steps, about.
        followed: Number of sessions with a follower each.
    """
    (socket,) = await connect_v1(server.port, 1, sessions)
    await step_all_v1([socket], WARM_UP_STEPS)
    followers = [asyncio.create_task(_follow(server.port, one.name)) for one in socket.sessions[:followed]]
    await asyncio.sleep(_FOLLOWERS_BEGIN_S)
    each = max(1, steps // sessions)
    before = server.cpu_seconds()
    await step_all_v1([socket], each)
    spent = server.cpu_seconds() - before
    for follower in followers:
        follower.cancel()
    await asyncio.gather(*followers, return_exceptions=True)
    socket.close()
    return spent / (sessions * each)


async def _follow(port: int, name: bytes) -> None:
    """Follow a session as the page does, and drop what comes."""
    session = public_name(json.loads(name))
    address = f"ws://127.0.0.1:{port}/web/live/feed?session_id={session}"
    async with connect(address, compression=None, max_size=None, proxy=None) as socket:
        async for text in socket:
            entries = json.loads(text).get("entries")
            if entries:
                await socket.send(json.dumps({"seen": entries[-1]["number"]}))


async def recorded_cpu_per_step(server: ServerProcess, sessions: int, steps: int) -> float:
    """Return the seconds of CPU that a step takes as ``v1_cpu_per_step`` does, with all that is written of it later."""
    return await v1_cpu_per_step(server, sessions, steps, written_after_s=WRITTEN_AFTER_S)


async def v1_cpu_per_step(
    server: ServerProcess,
    sessions: int,
    steps: int,
    kind: type[V1Socket] = V1Socket,
    *,
    written_after_s: float = 0.0,
) -> float:
    """Return the seconds of CPU that a step takes of a server with all sessions on one socket, stepped at once.

    Args:
        server: The server.
        sessions: Number of sessions.
        steps: Number of steps, about.
        kind: How they are stepped.
        written_after_s: Time in which the server may write what it records, before its CPU is read.
    """
    sockets = await connect_v1(server.port, 1, sessions, kind)
    await step_all_v1(sockets, WARM_UP_STEPS)
    await asyncio.sleep(written_after_s)
    each = max(1, steps // sessions)
    before = server.cpu_seconds()
    await step_all_v1(sockets, each)
    await asyncio.sleep(written_after_s)
    spent = server.cpu_seconds() - before
    sockets[0].close()
    return spent / (sessions * each)
