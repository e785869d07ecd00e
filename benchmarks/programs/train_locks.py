"""``python -m benchmarks.programs.train_locks SAMPLER FILE``: a tiny policy learns to open locks; writes its curve."""

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.console import Console
from tests.support.servers import RunningServer
from transformers import TrainerCallback

from benchmarks.programs.locks import DIFFICULTIES, SOLVABLE, Lock, LocksEnvironment, Turn
from benchmarks.samplers import REACHED, Curve
from openenv.core.env_server.app import create_fastapi_app
from openenv.train.agents.agent import play
from openenv.train.agents.policy import Policy, make_policy
from openenv.train.agents.policy_agent import PolicyAgent
from openenv.train.dataset.rollout_traces import RunRecorder
from openenv.train.quiet import quiet_libraries
from openenv.train.rollout.sessions import Sessions
from openenv.train.run.environments import OpenRun
from openenv.train.run.grpo import make_trainer
from openenv.train.samplers import SamplerCounters
from openenv.train.settings.config import TrainConfig

GROUPS, GROUP_SIZE, EVERY = 4, 8, 5
TASKS_OF_EACH = 10


class Evaluations(TrainerCallback):
    """Evaluates the policy every few steps, and ends the training once it is good enough.

    Attributes:
        counters: Returns what the sampler has counted; set once the trainer is made.
        curve: The counts, and the mean reward, of each evaluation.
    """

    def __init__(self, policy: Policy, config: TrainConfig, sessions: Sessions) -> None:
        self._agent = PolicyAgent(policy, config, temperature=0.0)
        self._sessions = sessions
        self.counters: Callable[[], SamplerCounters] = SamplerCounters
        self.curve: Curve = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Evaluate the policy."""
        if state.global_step % EVERY:
            return
        tasks = enumerate({"seed": 0, "difficulty": difficulty} for difficulty in SOLVABLE)
        rewards = [played.episode.reward for played in play(self._agent, tasks, self._sessions)]
        self.curve.append({**self.counters().figures(), "reward": sum(rewards) / len(rewards)})
        control.should_training_stop = self.curve[-1]["reward"] >= REACHED


def trained(sampler: str, seed: int, steps: int, folder: Path) -> Curve:
    """Train with a sampler, and return the curve."""
    lines = [{"seed": seed, "difficulty": level} for seed in range(TASKS_OF_EACH) for level in DIFFICULTIES]
    tasks = folder / "tasks.jsonl"
    tasks.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    app = create_fastapi_app(LocksEnvironment, Turn, Lock, max_concurrent_envs=2 * GROUPS * GROUP_SIZE)
    with RunningServer(app) as server:
        settings: dict[str, Any] = {"tasks": str(tasks), "sampler": {"kind": sampler}, "seed": seed, "steps": steps}
        settings |= {"rollouts": GROUPS * GROUP_SIZE, "group_size": GROUP_SIZE, "max_turns": max(SOLVABLE)}
        settings |= {"lr_schedule": "constant", "checkpoint_every": steps, "traces": False, "output_dir": folder}
        # What is learned of the first locks should not settle the keys of those that were never reached.
        settings |= {"entropy_coef": 0.05}
        config = TrainConfig(environment=server.url, **settings)
        with quiet_libraries(), Sessions.open(server.url, config.rollouts) as sessions:
            policy = make_policy(config, sessions)
            run_folder = config.make_folder("locks")
            recorder = RunRecorder(config, run_folder)
            run = OpenRun(config, run_folder, None, {"": sessions}, recorder, Console(quiet=True))
            evaluations = Evaluations(policy, config, sessions)
            trainer: Any = make_trainer(run, {"": policy}, [evaluations])
            evaluations.counters = lambda: trainer.samplers[""].counters
            trainer.train()
    return evaluations.curve


def main(
    sampler: Annotated[str, typer.Argument(help="Kind of the sampler.")],
    file: Annotated[Path, typer.Argument(help="Where the curve is written.")],
    seed: Annotated[int, typer.Option(help="Seed of the training.")] = 1,
    steps: Annotated[int, typer.Option(min=EVERY, help="Optimiser steps at most.")] = 1000,
) -> None:
    """Train, and write the curve."""
    with TemporaryDirectory() as folder:
        curve = trained(sampler, seed, steps, Path(folder))
    file.write_text(json.dumps(curve), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
