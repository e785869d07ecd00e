"""A database that holds the journal, and the servers that share it, killed in turns while episodes are played."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import urlopen

from tests.chaos.effort import Effort
from tests.chaos.environments import LENGTH
from tests.chaos.players import SESSIONS, Match, assert_same, play
from tests.chaos.server import PATIENCE_S, Server
from tests.support.services.postgres import Postgres, running_postgres


def run(effort: Effort, folder: Path) -> str:
    """Play the same episodes undisturbed and with kills of PostgreSQL and of the server.

    Args:
        effort: How many episodes, and kills of either.
        folder: Where logs go.

    Returns:
        The counts.
    """
    undisturbed = folder / "undisturbed"
    undisturbed.mkdir()
    with Server.of("ThreadedChainEnvironment", undisturbed, max_concurrent_envs=2 * SESSIONS) as server:
        expected = play(Match(server.url, effort.seed, "undisturbed"), effort.killed_episodes)
    with running_postgres() as postgres:
        settings: dict[str, Any] = {
            "max_concurrent_envs": 2 * SESSIONS,
            "journal": postgres.new_database(),
            "resume_window_s": PATIENCE_S,
        }
        with Server.of("ThreadedChainEnvironment", folder, **settings) as server:
            match = Match(server.url, effort.seed, "killed")
            with ThreadPoolExecutor(1) as killer:
                kills = killer.submit(_kill, server, postgres, match, effort)
                rewards = play(match, effort.killed_episodes)
                assert kills.result() == effort.kills, f"the episodes ended after {kills.result()} kills"
            assert_same(rewards, expected)
    return (
        f"{effort.kills} times kill -9 for PostgreSQL, and then for the server, during {effort.killed_episodes:,} "
        f"episodes, {effort.killed_episodes * LENGTH:,} steps: all episodes went on, rewards equal"
    )


def _kill(server: Server, postgres: Postgres, match: Match, effort: Effort) -> int:
    """Kill the database and then the server after random numbers of steps; return how often that was done."""
    between = effort.killed_episodes * LENGTH // (effort.kills + 1)
    dice = Random(effort.seed)
    for kill in range(effort.kills):
        if not match.progress.wait_for(kill * between + dice.randint(between // 4, between)):
            return kill
        postgres.kill()
        postgres.start()
        _wait_until_written(server)
        server.kill()
        server.start()
    return effort.kills


def _wait_until_written(server: Server) -> None:
    """Wait until what was done meanwhile is on record: who is killed before has told clients what nobody knows."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with urlopen(f"{server.url}/metrics", timeout=PATIENCE_S) as answer:
            if b'openenv_journal_failing{worker="0"} 0.0' in answer.read():
                return
        assert time.monotonic() < deadline, "the journal is not written any more"
        time.sleep(0.05)
