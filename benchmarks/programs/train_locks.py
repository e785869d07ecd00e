"""``python -m benchmarks.programs.train_locks SAMPLER FILE``: a tiny policy learns to open doors; writes its curve."""

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.console import Console
from tests.support.servers import RunningServer
from transformers import TrainerCallback

from benchmarks.programs.locks import DIFFICULTIES, KEYS, OPENING, Door, LocksEnvironment, Turn, name_of
from benchmarks.samplers import REACHED, Curve
from openenv.core.env_server.app import create_fastapi_app
from openenv.train.agents.agent import play
from openenv.train.agents.policy import Policy, load_policies, make_policy
from openenv.train.agents.policy_agent import PolicyAgent
from openenv.train.dataset.rollout_traces import RunRecorder
from openenv.train.episodes.episode import Episode
from openenv.train.quiet import quiet_libraries
from openenv.train.rollout.sessions import Sessions
from openenv.train.run.environments import OpenRun
from openenv.train.run.grpo import make_trainer
from openenv.train.run.warm_up import example_tokens, learn_examples
from openenv.train.samplers import SamplerCounters
from openenv.train.settings.config import TrainConfig

GROUPS, GROUP_SIZE, EVERY = 2, 8, 10
WARM_UP: dict[str, Any] = {"sft_batch": 16, "sft_epochs": 2.0}
TASKS = [{"seed": 0, "door": door, "difficulty": difficulty} for door, difficulty in DIFFICULTIES.items()]
SOLVABLE = [task for task in TASKS if OPENING[task["difficulty"]]]


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
        rewards = [played.episode.reward for played in play(self._agent, enumerate(SOLVABLE), self._sessions)]
        self.curve.append({**self.counters().figures(), "reward": sum(rewards) / len(rewards)})
        control.should_training_stop = self.curve[-1]["reward"] >= REACHED


def trained(sampler: str, seed: int, steps: int, folder: Path) -> Curve:
    """Train with a sampler, and return the curve."""
    tasks = folder / "tasks.jsonl"
    tasks.write_text("".join(f"{json.dumps(line)}\n" for line in TASKS), encoding="utf-8")
    app = create_fastapi_app(LocksEnvironment, Turn, Door, max_concurrent_envs=2 * len(TASKS))
    with RunningServer(app) as server:
        settings: dict[str, Any] = {"tasks": str(tasks), "sampler": {"kind": sampler}, "seed": seed}
        settings |= {"rollouts": GROUPS * GROUP_SIZE, "group_size": GROUP_SIZE, "output_dir": folder, **WARM_UP}
        settings |= {"steps": steps, "lr_schedule": "constant", "checkpoint_every": steps, "traces": False}
        # With fewer groups in a step than usual steps are smaller, and what is learned of a door leaves others alone.
        settings |= {"learning_rate": 1e-3, "entropy_coef": 0.05, "tiny_hidden": 64}
        config = TrainConfig(environment=server.url, **settings)
        # As many sessions as doors, so that the vocabulary has the names of all.
        with quiet_libraries(), Sessions.open(server.url, len(TASKS)) as sessions:
            run_folder, console = config.make_folder("locks"), Console(quiet=True)
            policy = make_policy(config, sessions)
            learn_examples(policy, _examples(policy), config, run_folder.warm_up, console)
            policy = load_policies(config, {"": sessions}, run_folder.warm_up)[""]
            run = OpenRun(config, run_folder, None, {"": sessions}, RunRecorder(config, run_folder), console)
            evaluations = Evaluations(policy, config, sessions)
            trainer: Any = make_trainer(run, {"": policy}, [evaluations])
            evaluations.counters = lambda: trainer.samplers[""].counters
            trainer.train()
    return evaluations.curve


def _examples(policy: Policy) -> list[tuple[list[int], list[int]]]:
    """Return episodes that try each key at each door: what is learned from them is which words are keys."""
    examples = []
    for task in TASKS:
        for key in KEYS:
            episode = Episode.of_task(task)
            episode.add_turn(name_of(task["door"]), key, None)
            examples.append(example_tokens(episode, policy.renderer))
    return examples


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
