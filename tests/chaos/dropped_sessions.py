"""Thousands of sessions opened and dropped without a word, and nothing stays behind."""

import asyncio
import json
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.chaos.effort import Effort
from tests.chaos.server import PATIENCE_S, Server
from tests.support.servers import eventually
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

_SOCKETS_AT_ONCE = 20
_MOST_SESSIONS_ON_A_SOCKET = 12
_RESUME_WINDOW_S = 0.2
# What a second round may add to the memory that the first one has left: its allocator's own ups and downs.
_MEMORY_BOUND_BYTES = 8 * 1024 * 1024


def run(effort: Effort, folder: Path) -> str:
    """Open and drop sessions in two rounds after a short one, and compare what each leaves behind.

    Args:
        effort: How many sessions.
        folder: Where logs go.

    Returns:
        The counts.
    """
    capacity = 2 * _SOCKETS_AT_ONCE * _MOST_SESSIONS_ON_A_SOCKET
    settings: dict[str, Any] = {"max_concurrent_envs": capacity, "resume_window_s": _RESUME_WINDOW_S}
    with Server.of("ThreadedChainEnvironment", folder, **settings) as server:
        _drop(server, Random(effort.seed), effort.dropped_sessions // 10)
        before = _settled(server)
        _drop(server, Random(effort.seed + 1), effort.dropped_sessions)
        after_one = _settled(server)
        memory_after_one = server.memory_bytes()
        _drop(server, Random(effort.seed + 2), effort.dropped_sessions)
        after_two = _settled(server)
        grown = server.memory_bytes() - memory_after_one
        server.assert_nothing_unhandled()
    assert before == after_one == after_two, (before, after_one, after_two)
    assert grown < _MEMORY_BOUND_BYTES, f"{effort.dropped_sessions} more sessions left {grown} more bytes"
    return (
        f"{effort.dropped_sessions:,} sessions dropped twice: 0 places, sessions, threads or file descriptors left, "
        f"{grown / effort.dropped_sessions:+.0f} bytes a session in the second round"
    )


def _settled(server: Server) -> dict[str, int]:
    """Wait until the server has let go of every session, and count what it has then."""
    eventually(lambda: _is_empty(server.ask("/census")), "every session is gone", PATIENCE_S)
    return {**server.ask("/census"), **_without_connections(server)}


def _is_empty(census: dict[str, int]) -> bool:
    return census["places"] == census["sessions"] == census["seats"] == 0


def _without_connections(server: Server) -> dict[str, int]:
    """Count threads and descriptors once the last connection, that of the census itself, has gone."""
    lowest = server.handles()
    for _ in range(20):
        now = server.handles()
        lowest = {name: min(lowest[name], count) for name, count in now.items()}
    return lowest


def _drop(server: Server, dice: Random, sessions: int) -> None:
    asyncio.run(_drop_all(server.port, dice, sessions))


async def _drop_all(port: int, dice: Random, sessions: int) -> None:
    """Open so many sessions, half of them on v1, on some sockets at a time, and drop each in its own way."""
    left = sessions
    while left > 0:
        counts: list[int] = []
        while left > 0 and len(counts) < _SOCKETS_AT_ONCE:
            on_v1 = dice.random() < 2 / (_MOST_SESSIONS_ON_A_SOCKET + 3)  # as many sessions as on the legacy wire
            counts.append(min(left, dice.randint(1, _MOST_SESSIONS_ON_A_SOCKET)) if on_v1 else 0)
            left -= max(1, counts[-1])
        await asyncio.gather(*(_drop_one(port, count, dice.random()) for count in counts))


async def _drop_one(port: int, sessions: int, moment: float) -> None:
    """Open a socket and drop it: ``sessions`` of v1, or the one of the legacy wire where there are 0."""
    subprotocols = [Subprotocol("openenv.v1")] if sessions else None
    wire = await connect(
        f"ws://127.0.0.1:{port}/ws", compression=None, ping_interval=None, proxy=None, subprotocols=subprotocols
    )
    if sessions:
        await _use_v1(wire, sessions, moment)
    else:
        await _use_legacy(wire, moment)
    _reset_connection(wire)
    await wire.wait_closed()


async def _use_legacy(wire: ClientConnection, moment: float) -> None:
    """Begin an episode, and leave before, during or after a step."""
    await wire.send('{"type": "reset"}')
    if moment > 0.2:
        await wire.recv()
        await wire.send('{"type": "step", "data": {"amount": 1}}')
    if moment > 0.6:
        await wire.recv()


async def _use_v1(wire: ClientConnection, sessions: int, moment: float) -> None:
    """Open sessions, begin episodes, and leave before, during or after a step."""
    await wire.send(json.dumps([{"type": "open", "id": number} for number in range(1, sessions + 1)]))
    opened = [answer["session"] for answer in await _answers(wire, sessions)]
    await wire.send(_to_all(opened, "reset", 1))
    if moment > 0.2:
        await _answers(wire, sessions)
        await wire.send(_to_all(opened, "step", 2, amount=1))
    if moment > 0.6:
        await _answers(wire, sessions)


def _to_all(sessions: Sequence[str], kind: str, number: int, **data: int) -> str:
    return json.dumps([{"type": kind, "id": number, "session": name, "data": data} for name in sessions])


async def _answers(wire: ClientConnection, count: int) -> list[dict[str, str]]:
    answers: list[dict[str, str]] = []
    while len(answers) < count:
        frame = json.loads(await wire.recv())
        answers.extend(frame if isinstance(frame, list) else [frame])
    assert all(answer["type"] != "error" for answer in answers), answers
    return answers


def _reset_connection(wire: ClientConnection) -> None:
    """Go without a word: the server gets a TCP reset."""
    connection: socket.socket = wire.transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.transport.abort()
