"""What it costs to record what sessions do: a journal, and traces."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Protocol

import uvloop

from benchmarks.bench import Bench
from benchmarks.measurements.server_cpu import SESSIONS, WRITTEN_AFTER_S
from benchmarks.processes import ServerProcess
from benchmarks.wire_client import WireSession, check_answer, open_sessions, step_all
from benchmarks.wire_client_v1 import V1Socket, connect_v1

# The two servers are stepped in turns, since what disturbs one of them for a moment would look like a difference.
# A turn takes some seconds, in each of which traces are written four times, and begins after steps that are not timed,
# so that the writing goes on from its beginning.
_TURNS = 2
_WARM_UP_SHARE = 0.2
_EPISODE_STEPS = 300


def journal(bench: Bench) -> None:
    """Step 64 sessions of one socket at once, on a server with a journal and on one without."""
    _record(bench, "journal", "journal")


def traces(bench: Bench) -> None:
    """Step 64 sessions of one socket at once, on a server with traces and on one without."""
    _record(bench, "traces", "traces")


def traces_in_threads(bench: Bench) -> None:
    """Step 64 sessions whose environment has a thread each, on a server with traces and on one without."""
    _record(bench, "traces_threaded", "traces", "ours_threaded")


def traces_of_sockets(bench: Bench) -> None:
    """Step 64 sockets of the legacy wire at once, on a server with traces and on one without."""
    _record(bench, "traces_legacy", "traces", connect=LegacySockets.connect)


class Played(Protocol):
    """Sessions that are reset and stepped at once."""

    async def reset(self) -> None:
        """Reset every session."""

    async def step(self, rounds: int) -> None:
        """Let every session do so many steps."""

    def close(self) -> None:
        """Close every session."""


class LegacySockets:
    """Sessions with a socket each.

    Args:
        sessions: The sessions.
    """

    def __init__(self, sessions: Sequence[WireSession]) -> None:
        self._sessions = sessions

    @classmethod
    async def connect(cls, port: int) -> "LegacySockets":
        """Open the sessions."""
        return cls(await open_sessions(port, SESSIONS))

    async def reset(self) -> None:
        """Reset every session."""
        for answer in await asyncio.gather(*[session.ask({"type": "reset"}) for session in self._sessions]):
            check_answer(answer)

    async def step(self, rounds: int) -> None:
        """Let every session do so many steps, all at once."""
        await step_all(self._sessions, rounds)

    def close(self) -> None:
        """Close every session."""
        for session in self._sessions:
            session.close()


async def _one_socket(port: int) -> V1Socket:
    (socket,) = await connect_v1(port, 1, SESSIONS)
    return socket


def _record(
    bench: Bench,
    row: str,
    option: str,
    server: str = "ours",
    connect: Callable[[int], Awaitable[Played]] = _one_socket,
) -> None:
    with (
        TemporaryDirectory(prefix="openenv-records-") as folder,
        bench.fresh_server(server) as without,
        bench.fresh_server(server, f"--{option}={Path(folder) / option}") as recording,
    ):
        rates: dict[ServerProcess, list[float]] = {without: [], recording: []}
        for _ in range(_TURNS):
            for stepped, figures in rates.items():
                figures.append(uvloop.run(_rate(stepped.port, connect, bench.effort.record_steps)))
    bench.samples.add(row, "ours", median(rates[recording]) / median(rates[without]))


async def _rate(port: int, connect: Callable[[int], Awaitable[Played]], steps: int) -> float:
    """Return how many steps a second the server carries out, while it writes those before them."""
    sessions = await connect(port)
    each = max(1, steps // SESSIONS)
    await _play(sessions, max(1, round(each * _WARM_UP_SHARE)))
    started = time.perf_counter()
    await _play(sessions, each)
    seconds = time.perf_counter() - started
    sessions.close()
    await asyncio.sleep(WRITTEN_AFTER_S)  # what is still written would be on the core of the other server
    return SESSIONS * each / seconds


async def _play(sessions: Played, steps: int) -> None:
    """Let every session do so many steps, in episodes of a usual length: of a long one, less is kept for a replay."""
    for start in range(0, steps, _EPISODE_STEPS):
        await sessions.reset()
        await sessions.step(min(_EPISODE_STEPS, steps - start))
