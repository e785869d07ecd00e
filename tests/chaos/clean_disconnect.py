"""Clients that leave properly, at any moment of an episode, and a log that does not mention it."""

import asyncio
import json
from pathlib import Path

from tests.chaos.effort import Effort
from tests.chaos.server import PATIENCE_S, Server
from tests.support.servers import eventually
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

_MOMENTS = ("connected", "opened", "reset", "stepped")


def run(effort: Effort, folder: Path) -> str:
    """Have clients connect and then leave properly; only what is logged from then on counts.

    Args:
        effort: How many clients of each kind.
        folder: Where logs go.

    Returns:
        The counts.
    """
    capacity = 2 * effort.disconnects * len(_MOMENTS)
    with Server.of("ThreadedChainEnvironment", folder, log_level="info", max_concurrent_envs=capacity) as server:
        loud = asyncio.run(_leave_all(server, effort.disconnects))
    assert not loud, "\n".join(loud)
    return f"{capacity:,} clients left properly, on both wires, at {len(_MOMENTS)} moments: 0 lines above debug"


async def _leave_all(server: Server, count: int) -> list[str]:
    wires = [
        await _arrive(server.port, subprotocol, moment)
        for subprotocol in (None, "openenv.v1")
        for moment in _MOMENTS
        for _ in range(count)
    ]
    logged_before = len(server.log())
    await asyncio.gather(*(wire.close() for wire in wires))
    await asyncio.to_thread(eventually, lambda: server.ask("/census")["sessions"] == 0, "all are gone", PATIENCE_S)
    lines = server.log()[logged_before:].splitlines()
    return [line for line in lines if "/census" not in line]


async def _arrive(port: int, subprotocol: str | None, moment: str) -> ClientConnection:
    """Connect, and get as far as the moment says."""
    offered = None if subprotocol is None else [Subprotocol(subprotocol)]
    wire = await connect(
        f"ws://127.0.0.1:{port}/ws", compression=None, ping_interval=None, proxy=None, subprotocols=offered
    )
    named: dict[str, object] = {}
    reached = _MOMENTS.index(moment)
    if subprotocol is not None and reached >= 1:
        opened = await _ask(wire, {"type": "open", "id": 1})
        named = {"session": opened["session"]}
    if reached >= 2:
        await _ask(wire, {"type": "reset", "data": {}, **named, **({"id": 1} if named else {})})
    if reached >= 3:
        await _ask(wire, {"type": "step", "data": {"amount": 1}, **named, **({"id": 2} if named else {})})
    return wire


async def _ask(wire: ClientConnection, message: dict[str, object]) -> dict[str, object]:
    await wire.send(json.dumps(message))
    answer: dict[str, object] = json.loads(await wire.recv())
    assert answer["type"] != "error", answer
    return answer
