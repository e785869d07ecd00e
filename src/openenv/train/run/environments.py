"""The environments of a run: their sessions, the order in which they are played, and the tasks of each step."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console

from openenv.core.env_server.settings import environment_variables
from openenv.core.reset_check import check_reset_parameters
from openenv.records.run_folder import RunFolder, step_of
from openenv.train.dataset.rollout_traces import RunRecorder
from openenv.train.rollout.sessions import Sessions
from openenv.train.samplers import TaskSampler
from openenv.train.settings.config import TrainConfig
from openenv.train.tasks.order import interleaved
from openenv.train.tasks.seeds import training_seeds
from openenv.train.tasks.task_choice import listed_tasks, training_tasks
from openenv.train.time_split import TimeSplit
from openenv.train.trl.env_spec import EnvSpec, EnvSpecs

__all__ = ["OpenRun", "environment_name", "group_environments", "open_run", "open_sessions", "training_spec"]


@dataclass(frozen=True)
class OpenRun:
    """A run whose environments are open.

    Attributes:
        checkpoint: The checkpoint that it resumes from; ``None`` for a run that is at its beginning.
        sessions: The environments, by the names of ``config.parts``.
        times: Split of the time since the run's servers were started, or since `keep_times`.
    """

    config: TrainConfig
    folder: RunFolder
    checkpoint: Path | None
    sessions: Mapping[str, Sessions]
    recorder: RunRecorder
    console: Console
    times: TimeSplit = field(default_factory=TimeSplit)

    @property
    def steps_done(self) -> int:
        """Optimiser steps that were done before the run was resumed."""
        return 0 if self.checkpoint is None else step_of(self.checkpoint)

    @property
    def title(self) -> str:
        """Heading of its report."""
        return f"{self.config.model} on {environment_name(self.config)}"

    def keep_times(self) -> None:
        """Write the time since the last step, which no step has, into the folder."""
        self.folder.add_times(self.times.drain())

    def show(self, text: str) -> None:
        """Show a line of its progress."""
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)

    def warn(self, text: str) -> None:
        """Show a line of its progress in the colour of warnings."""
        self.console.print(text, style="yellow", highlight=False, soft_wrap=True, markup=False)


def training_spec(config: TrainConfig, sessions: Mapping[str, Sessions]) -> EnvSpec | EnvSpecs:
    """Return the spec that a run is trained on: a task for each group of episodes, from the first step to the last."""
    groups_each_step = config.rollouts // config.group_size
    parts = config.parts
    order = group_environments(config)
    seeds = training_seeds(config.seed, len(order))
    named = {
        name: iter(training_tasks(part.tasks, sessions[name], order.count(name), seed=part.seed))
        for name, part in parts.items()
        if part.tasks is not None
    }
    tasks: dict[str, list[dict[str, Any]]] = {name: [] for name in order}
    for number, (name, seed) in enumerate(zip(order, seeds, strict=True)):
        task = next(named[name]) if name in named else {"seed": seed}
        tasks[name].append({**parts[name].reset_at(number // groups_each_step), **task})
    # Rows of a file may have more than reset takes, so they are no list, each of which would be checked.
    specs = {
        name: EnvSpec(
            sessions[name],
            tasks=iter(rows),
            system_prompt=config.system_prompt,
            # The tiny policy knows the words of observations alone.
            instructions="" if config.is_tiny else None,
            max_turns=parts[name].max_turns,
            sampler=_task_sampler(parts[name], sessions[name]),
            warns_of_hidden_text=False,
        )
        for name, rows in tasks.items()
    }
    return EnvSpecs(specs, order) if config.environments else specs[""]


def _task_sampler(config: TrainConfig, sessions: Sessions) -> TaskSampler | None:
    if config.sampler is None or config.tasks is None:
        return None
    tasks = listed_tasks(config.tasks, sessions, seed=config.seed, reset=config.reset)
    return config.sampler.make(tasks, group_size=config.group_size, seed=config.seed)


@contextmanager
def open_run(config: TrainConfig, folder: RunFolder, console: Console) -> Iterator[OpenRun]:
    """Open the environments of a run, which record their episodes in its folder; raises as `open_sessions`."""
    times = TimeSplit()
    with RunRecorder(config, folder) as recorder, open_sessions(config, _env_vars(config, recorder)) as sessions:
        yield OpenRun(config, folder, folder.last_checkpoint(), sessions, recorder, console, times)


def _env_vars(config: TrainConfig, recorder: RunRecorder) -> Mapping[str, str] | None:
    measured = {} if config.prices is None else environment_variables({"measure_cpu": True})
    return {**(recorder.env_vars or {}), **measured} or None


@contextmanager
def open_sessions(config: TrainConfig, env_vars: Mapping[str, str] | None = None) -> Iterator[dict[str, Sessions]]:
    """Open the sessions of a run's environments, by the names of ``config.parts``: one for each episode at once.

    Raises:
        ConfigurationError: An environment's reset does not take what one of the run's stages passes it.
        OpenEnvError: An environment is not there, or holds fewer sessions; see `Sessions.open`.
    """
    counts = _session_counts(config)
    with ExitStack() as stack:
        opened = {
            name: stack.enter_context(
                Sessions.open(
                    part.environment,
                    counts[name],
                    with_tools=part.with_tools,
                    step_timeout_s=config.step_timeout_s,
                    env_vars=env_vars,
                )
            )
            for name, part in config.parts.items()
        }
        for name, part in config.parts.items():
            # The schema is read here even without parameters to check: later, a server may just be starting again.
            schema = opened[name].reset_schema
            for reset in part.resets:
                check_reset_parameters(schema, reset, f"reset, for {part.environment}")
        yield opened


def environment_name(config: TrainConfig) -> str:
    """Return the short name of a run's environment; those of several joined by ``+``."""
    return config.environment if config.environments else Sessions.name_of(config.environment)


def group_environments(config: TrainConfig) -> list[str]:
    """Return the environment of each group of episodes, from the first step to the last."""
    shares = {name: own.share for name, own in config.environments.items()} or {"": 1}
    return list(islice(interleaved(shares), config.steps * (config.rollouts // config.group_size)))


def _session_counts(config: TrainConfig) -> dict[str, int]:
    """Return the sessions of each environment: as many as the largest of its steps has episodes."""
    groups_each_step = config.rollouts // config.group_size
    order = group_environments(config)
    steps = [order[start : start + groups_each_step] for start in range(0, len(order), groups_each_step)]
    # One that never plays in training is played before and after it.
    return {name: max(1, *(step.count(name) for step in steps)) * config.group_size for name in config.parts}
