"""A training whose server is killed and started again on the way, beside one that nobody disturbs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from rich.console import Console
from tests.chaos.effort import Effort
from tests.chaos.players import Progress
from tests.chaos.server import Server
from trl.trainer.grpo_trainer import GRPOTrainer

from openenv.train.rollout.sessions import Sessions
from openenv.train.run import grpo
from openenv.train.run.training import TrainResult, train
from openenv.train.settings.config import TrainConfig
from openenv.train.trl.rollout_function import RolloutFunction

_ROLLOUTS = 16
# Steps that every episode of Catch takes.
_EPISODE = 9


class _Recorder(RolloutFunction):
    """Notes the reward of every episode that is trained on."""

    rewards: list[list[float]]

    def __call__(self, prompts: Sequence[Any], trainer: GRPOTrainer) -> dict[str, list[Any]]:
        fields = super().__call__(prompts, trainer)
        self.rewards.append(fields["episode_reward"])
        return fields


class _CountedSessions(Sessions):
    """Notes every round of steps."""

    progress: Progress

    def step(self, actions: Mapping[int, Any]) -> dict[int, Any]:
        results = super().step(actions)
        self.progress.add()
        return results


def run(effort: Effort, folder: Path) -> str:
    """Train twice with the same seed, the second time with a server that dies on the way.

    Args:
        effort: How many optimiser steps and kills.
        folder: Where runs, logs and journals go.

    Returns:
        The counts.
    """
    with _catch_server(folder, "undisturbed") as server:
        undisturbed, expected = _trained(server, effort, folder / "undisturbed", _let_be)
    with _catch_server(folder, "killed") as server:
        disturbed, rewards = _trained(server, effort, folder / "killed", _kill)
    assert rewards == expected
    assert disturbed.scores == undisturbed.scores
    assert _without_times(disturbed) == _without_times(undisturbed)
    episodes = sum(map(len, rewards))
    return (
        f"openenv train catch, {effort.training_steps} optimiser steps, server killed {effort.training_kills} times: "
        f"{episodes:,} training episodes, each with the reward of the undisturbed run; scores and losses equal"
    )


@contextmanager
def _catch_server(folder: Path, name: str) -> Iterator[Server]:
    (folder / name).mkdir()
    options = ["--max-sessions", str(2 * _ROLLOUTS), "--journal", str(folder / name / "journal.db")]
    with Server(["-m", "openenv.cli", "serve", "catch", *options], folder / name) as server:
        yield server


def _trained(
    server: Server, effort: Effort, folder: Path, disturb: Callable[[Server, Effort, Progress], int]
) -> tuple[TrainResult, list[list[float]]]:
    """Train on a server while something goes on with it; return the rewards of each batch too."""
    config = TrainConfig(
        environment=server.url,
        seed=effort.seed,
        steps=effort.training_steps,
        rollouts=_ROLLOUTS,
        group_size=4,
        eval_episodes=_ROLLOUTS,
        output_dir=folder / "runs",
    )
    _Recorder.rewards, _CountedSessions.progress = [], Progress()
    with (
        ThreadPoolExecutor(1) as others,
        patch.object(grpo, "RolloutFunction", _Recorder),
        patch("openenv.train.run.environments.Sessions", _CountedSessions),
    ):
        disturbed = others.submit(disturb, server, effort, _CountedSessions.progress)
        try:
            result = train(config, Console(file=StringIO()))
        finally:
            _CountedSessions.progress.end()
        disturbed.result()
    return result, _Recorder.rewards


def _let_be(server: Server, effort: Effort, progress: Progress) -> int:
    return 0


def _kill(server: Server, effort: Effort, progress: Progress) -> int:
    """Kill the server in the middle of episodes that are trained on, at random, in different optimiser steps."""
    dice = Random(effort.seed)
    evaluated = 3 * _EPISODE  # the random and the scripted player, and the policy before training
    between = effort.training_steps * _EPISODE // effort.training_kills
    for kill in range(effort.training_kills):
        assert progress.wait_for(evaluated + kill * between + dice.randint(1, between - 1)), "the training has ended"
        server.kill()
        server.start()
    return effort.training_kills


def _without_times(result: TrainResult) -> list[dict[str, Any]]:
    """What the run has logged in every optimiser step, but for how long that took."""
    return [
        {name: value for name, value in row.items() if "time" not in name and "second" not in name}
        for row in result.folder.read_metrics()
    ]
