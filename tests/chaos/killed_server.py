"""A server that is killed while episodes are played, and started again, with a journal."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from tests.chaos.effort import Effort
from tests.chaos.environments import LENGTH
from tests.chaos.players import SESSIONS, Match, assert_same, play
from tests.chaos.server import PATIENCE_S, Server

_WORKERS = 2


def run(effort: Effort, folder: Path) -> str:
    """Play the same episodes undisturbed and with kills, on one process and on workers.

    Args:
        effort: How many episodes and kills, of each kind.
        folder: Where logs and journals go.

    Returns:
        The counts.
    """
    undisturbed = folder / "undisturbed"
    undisturbed.mkdir()
    with Server.of("ThreadedChainEnvironment", undisturbed, max_concurrent_envs=2 * SESSIONS) as server:
        expected = play(Match(server.url, effort.seed, "undisturbed"), effort.killed_episodes)
    for workers in (1, _WORKERS):
        disturbed = folder / f"workers-{workers}"
        disturbed.mkdir()
        journal = disturbed / "journal.db"
        settings: dict[str, Any] = {
            "max_concurrent_envs": 2 * SESSIONS,
            "journal": journal,
            "resume_window_s": PATIENCE_S,
        }
        with Server.of("ThreadedChainEnvironment", disturbed, workers=workers, **settings) as server:
            match = Match(server.url, effort.seed, "killed")
            with ThreadPoolExecutor(1) as killer:
                kills = killer.submit(_kill, server, match, effort)
                rewards = play(match, effort.killed_episodes)
                assert kills.result() == effort.kills, f"the episodes ended after {kills.result()} kills"
            assert_same(rewards, expected)
    steps = effort.killed_episodes * LENGTH
    return (
        f"{effort.kills} times kill -9 and a new start, during {effort.killed_episodes:,} episodes, {steps:,} steps; "
        f"the same with {_WORKERS} workers: all episodes went on, rewards equal"
    )


def _kill(server: Server, match: Match, effort: Effort) -> int:
    """Kill the server after random numbers of steps; return how often that was done."""
    between = effort.killed_episodes * LENGTH // (effort.kills + 1)
    dice = Random(effort.seed)
    for kill in range(effort.kills):
        if not match.progress.wait_for(kill * between + dice.randint(between // 4, between)):
            return kill
        server.kill()
        server.start()
    return effort.kills
