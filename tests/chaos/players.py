"""Play episodes of the chain with each kind of client, and note every reward."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.chaos.environments import LENGTH
from tests.chaos.server import PATIENCE_S

from openenv.core.client_types import StepResult
from openenv.core.generic_client import GenericEnvClient
from openenv.core.vector_client import VectorEnv

Rewards = dict[int, list[float]]
"""The rewards of every step, by the number of the episode."""

Vector = VectorEnv[Any, dict[str, Any], dict[str, Any]]

VECTOR_SLOTS = 16
SINGLE_CLIENTS = 8
BLOCKING_CLIENTS = 4
SESSIONS = VECTOR_SLOTS + SINGLE_CLIENTS + BLOCKING_CLIENTS
"""Sessions that ``play`` has at once."""

# A connection that stays silent is found within so many seconds: amid its handshake, and after it twice.
_CONNECT_S = 3.0
_PING_S = 1.0


class Progress:
    """How many steps were answered so far; anybody may wait for more."""

    def __init__(self) -> None:
        self.steps = 0
        self.over = False
        self._changed = threading.Condition()

    def add(self, steps: int = 1) -> None:
        """Note answers."""
        with self._changed:
            self.steps += steps
            self._changed.notify_all()

    def end(self) -> None:
        """Note that there will be no more."""
        with self._changed:
            self.over = True
            self._changed.notify_all()

    def wait_for(self, steps: int) -> bool:
        """Wait for so many steps; ``False`` where all ended with fewer."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.over or self.steps >= steps, 10 * PATIENCE_S), self.steps
            return self.steps >= steps


def _let_them_play() -> None:
    """What begins a match that nobody disturbs."""


@dataclass
class Match:
    """Episodes to play.

    Attributes:
        url: Where the server is, or what stands before it.
        seed: What all actions derive from.
        name: What the episodes are called, with their numbers.
        begin: Called once every session is open, and before the first reset.
        progress: Learns of every step.
    """

    url: str
    seed: int
    name: str
    begin: Callable[[], None] = _let_them_play
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        self.everybody_is_there = threading.Barrier(BLOCKING_CLIENTS + 1, self.begin, PATIENCE_S)

    def client(self) -> GenericEnvClient:
        """Make a client that notices a dead connection soon."""
        return GenericEnvClient(
            base_url=self.url,
            message_timeout_s=2 * PATIENCE_S,
            connect_timeout_s=_CONNECT_S,
            websocket_ping_interval_s=_PING_S,
            websocket_ping_timeout_s=_PING_S,
        )

    def task(self, episode: int) -> dict[str, Any]:
        """Arguments of an episode's reset, but for its seed."""
        return {"episode_id": self.episode_id(episode)}

    def episode_id(self, episode: int) -> str:
        """What the environment is told that the episode is called."""
        return f"{self.name}-{episode}"

    def actions(self, episode: int) -> list[dict[str, int]]:
        """An episode's actions."""
        dice = Random(f"{self.seed}/{episode}")
        return [{"amount": dice.randrange(2**32)} for _ in range(LENGTH)]

    def reward_of(self, result: Any, steps: int) -> float:
        """Take the reward out of a step's result, which must be the one of this step."""
        if not isinstance(result, StepResult):
            raise AssertionError(f"step {steps} failed") from result
        assert result.observation["steps"] == steps, (result, steps)
        assert result.done is (steps == LENGTH), result
        assert isinstance(result.reward, float), result
        return result.reward


async def play_vector(match: Match, vector: Vector, episodes: Sequence[int]) -> Rewards:
    """Play with a vector, as many episodes at once as it has slots."""
    rewards: Rewards = {}
    for start in range(0, len(episodes), len(vector)):
        batch = episodes[start : start + len(vector)]
        tasks = [match.task(episode) for episode in batch]
        began = await vector.reset(seeds=batch, tasks=tasks, slots=range(len(batch)))
        assert all(isinstance(result, StepResult) for result in began[: len(batch)]), began
        actions = [match.actions(episode) for episode in batch]
        rest = [None] * (len(vector) - len(batch))
        for step in range(LENGTH):
            results = await vector.step([*(moves[step] for moves in actions), *rest])
            for episode, result in zip(batch, results, strict=False):
                rewards.setdefault(episode, []).append(match.reward_of(result, step + 1))
            match.progress.add(len(batch))
    return rewards


async def play_single(match: Match, client: GenericEnvClient, episodes: Sequence[int]) -> Rewards:
    """Play one episode after another with an async client."""
    rewards: Rewards = {}
    for episode in episodes:
        await client.reset(seed=episode, **match.task(episode))
        rewards[episode] = []
        for steps, action in enumerate(match.actions(episode), 1):
            rewards[episode].append(match.reward_of(await client.step(action), steps))
            match.progress.add()
    return rewards


def play_blocking(match: Match, episodes: Sequence[int]) -> Rewards:
    """Play one episode after another with a blocking client."""
    rewards: Rewards = {}
    with match.client().sync() as client:
        match.everybody_is_there.wait()
        for episode in episodes:
            client.reset(seed=episode, **match.task(episode))
            rewards[episode] = []
            for steps, action in enumerate(match.actions(episode), 1):
                rewards[episode].append(match.reward_of(client.step(action), steps))
                match.progress.add()
    return rewards


def play(match: Match, episodes: int) -> Rewards:
    """Play episodes with every kind of client at once: two in four with a vector, the others with single clients."""
    with ThreadPoolExecutor(BLOCKING_CLIENTS + 1) as threads:
        parts = [threads.submit(_play_async, match, [number for number in range(episodes) if number % 4 != 3])]
        for thread in range(BLOCKING_CLIENTS):
            theirs = [number for number in range(episodes) if number % 4 == 3][thread::BLOCKING_CLIENTS]
            parts.append(threads.submit(play_blocking, match, theirs))
        try:
            return _merged([part.result() for part in parts])
        finally:
            match.progress.end()
            match.everybody_is_there.abort()


def _play_async(match: Match, episodes: Sequence[int]) -> Rewards:
    return _merged(asyncio.run(_play_together(match, episodes)))


async def _play_together(match: Match, episodes: Sequence[int]) -> list[Rewards]:
    """Play with a vector and with single clients, which share their connections."""
    in_vector = [number for number in episodes if number % 4 < 2]
    alone = [number for number in episodes if number % 4 == 2]
    async with AsyncExitStack() as opened:
        client = await opened.enter_async_context(match.client())
        vector = await opened.enter_async_context(await client.vector(VECTOR_SLOTS))
        singles = [await opened.enter_async_context(match.client()) for _ in range(SINGLE_CLIENTS)]
        await asyncio.to_thread(match.everybody_is_there.wait)
        async with asyncio.TaskGroup() as tasks:
            playing = [tasks.create_task(play_vector(match, vector, in_vector))]
            for number, single in enumerate(singles):
                playing.append(tasks.create_task(play_single(match, single, alone[number::SINGLE_CLIENTS])))
        return [task.result() for task in playing]


def _merged(parts: Sequence[Rewards]) -> Rewards:
    return {episode: rewards for part in parts for episode, rewards in part.items()}


def assert_same(disturbed: Rewards, undisturbed: Rewards) -> None:
    """Fail, naming the first, for an episode whose rewards differ."""
    assert disturbed.keys() == undisturbed.keys()
    for episode, rewards in undisturbed.items():
        assert disturbed[episode] == rewards, f"episode {episode}: {disturbed[episode]} instead of {rewards}"


def assert_each_call_happened_once(match: Match, episodes: int, calls: dict[str, int]) -> None:
    """Fail for a reset or step that the server has not done, or has done again.

    Args:
        match: What was played.
        episodes: How many episodes.
        calls: What the environments have counted, see ``ChainEnvironment.calls``.
    """
    done = {call: count for call, count in calls.items() if call.startswith(f"{match.name}-")}
    names = ["reset", *map(str, range(1, LENGTH + 1))]
    expected = {f"{match.episode_id(episode)}/{name}": 1 for episode in range(episodes) for name in names}
    lost = expected.keys() - done.keys()
    again = {call: count for call, count in done.items() if count != 1}
    assert done == expected, f"lost: {sorted(lost)[:10]}; done again: {again}"
