"""Environments that raise, hang, leak and segfault beside others, which notice nothing."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.effort import Effort
from tests.chaos.environments import LENGTH
from tests.chaos.players import Match, Rewards, assert_same
from tests.chaos.server import PATIENCE_S, Server
from tests.support.servers import eventually

from openenv.core.client_types import StepResult
from openenv.core.exceptions import OpenEnvError, ServerExecutionError, ServerTimeoutError

# Those that hang in C use up all cores until it is over, and what does not hang has to be done meanwhile.
_STEP_TIMEOUT_S = 3.0
_NEIGHBOURS = 8
_NEIGHBOURS_ROUNDS = 3
_MEMORY_BOUND_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class _Mischief:
    """What an environment does, and what its client is told of it; ``None`` for nothing."""

    name: str
    error: type[OpenEnvError] | None


_IN_PROCESSES = [
    _Mischief("raise", ServerExecutionError),
    _Mischief("hang", ServerTimeoutError),
    _Mischief("hang in C", ServerTimeoutError),
    _Mischief("leak", None),
    _Mischief("segfault", ServerExecutionError),
]
# In the server's own process nothing helps against the others.
_IN_THREADS = [_Mischief("raise", ServerExecutionError), _Mischief("hang", ServerTimeoutError)]


def run(effort: Effort, folder: Path) -> str:
    """Play beside every kind of mischief, in processes of their own and in threads of the server's.

    Args:
        effort: How many sessions of each kind of mischief.
        folder: Where logs go.

    Returns:
        The counts.
    """
    told = []
    for isolation, mischiefs in (("process", _IN_PROCESSES), ("none", _IN_THREADS)):
        _play_beside(isolation, mischiefs, effort, folder)
        bad = effort.mischiefs * len(mischiefs)
        told.append(f"{bad} with isolation={isolation} ({', '.join(mischief.name for mischief in mischiefs)})")
    steps = 2 * _NEIGHBOURS * _NEIGHBOURS_ROUNDS * LENGTH
    return f"bad sessions: {'; '.join(told)}; beside them {steps:,} steps of neighbours: rewards equal, 0 errors"


def _play_beside(isolation: str, mischiefs: Sequence[_Mischief], effort: Effort, folder: Path) -> None:
    places = 2 * (_NEIGHBOURS + effort.mischiefs * len(mischiefs))
    settings: dict[str, Any] = {
        "isolation": isolation,
        "step_timeout_s": _STEP_TIMEOUT_S,
        "max_concurrent_envs": places,
    }
    with Server.of("MischievousChainEnvironment", folder, **settings) as server:
        match = Match(server.url, effort.seed, isolation)
        undisturbed = asyncio.run(_play_rounds(match))
        at_rest = _memory_at_rest(server)
        disturbed = asyncio.run(_play_rounds_beside(match, list(mischiefs) * effort.mischiefs, isolation))
        assert_same(disturbed, undisturbed)
        if isolation == "process":
            left = _memory_at_rest(server) - at_rest
            assert left < _MEMORY_BOUND_BYTES, f"{left} bytes are left of the sessions that have ended"
        server.ask("/health")


def _memory_at_rest(server: Server) -> int:
    """Memory of the server once no session is open, and no process is left of one."""
    eventually(lambda: server.ask("/census")["places"] == 0, "every session has ended", PATIENCE_S)
    eventually(lambda: server.handles()["processes"] <= 2, "every session's process has ended", PATIENCE_S)
    return server.memory_bytes()


async def _play_rounds_beside(match: Match, mischiefs: Sequence[_Mischief], isolation: str) -> Rewards:
    async with match.client() as client, await client.vector(len(mischiefs)) as bad, asyncio.TaskGroup() as tasks:
        neighbours = tasks.create_task(_play_rounds(match))
        await bad.reset(tasks=[{"mischief": mischief.name} for mischief in mischiefs])
        for step in range(1, 4):
            results = await bad.step([{"amount": 1}] * len(mischiefs))
            for mischief, result in zip(mischiefs, results, strict=True):
                _check(mischief if step == 3 else _Mischief(mischief.name, None), result)
        if isolation == "process":  # also those whose process has died go on
            assert all(isinstance(result, StepResult) for result in await bad.reset(seeds=[1] * len(mischiefs)))
        return await neighbours


def _check(mischief: _Mischief, result: Any) -> None:
    expected = StepResult if mischief.error is None else mischief.error
    assert isinstance(result, expected), f"{mischief.name}: expected {expected.__name__}, got {result!r}"


async def _play_rounds(match: Match) -> Rewards:
    """Play whole episodes with the neighbours; nothing of them may fail."""
    rewards: Rewards = {}
    async with match.client() as client, await client.vector(_NEIGHBOURS) as vector:
        for number in range(_NEIGHBOURS_ROUNDS):
            episodes = range(number * _NEIGHBOURS, (number + 1) * _NEIGHBOURS)
            await vector.reset(seeds=episodes)
            moves = [match.actions(episode) for episode in episodes]
            for step in range(LENGTH):
                results = await vector.step([actions[step] for actions in moves])
                for episode, result in zip(episodes, results, strict=True):
                    rewards.setdefault(episode, []).append(match.reward_of(result, step + 1))
    return rewards
