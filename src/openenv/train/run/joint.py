"""The environments of a run: their sessions, whose turn it is, and the tasks of each turn."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Any

from openenv.core.reset_check import check_reset_parameters
from openenv.train.settings.config import TrainConfig
from openenv.train.spec.env_spec import EnvSpec, EnvSpecs
from openenv.train.spec.sessions import Sessions
from openenv.train.tasks.seeds import training_seeds
from openenv.train.tasks.task_choice import training_tasks

__all__ = ["open_sessions", "training_spec", "turns"]


def turns(shares: Mapping[str, int]) -> Iterator[str]:
    """Yield names without end, each as often as its share says, and as evenly spread as can be.

    Args:
        shares: Positive numbers by name.

    Example:
        >>> "".join(islice(turns({"a": 2, "b": 1}), 6))
        'abaaba'
    """
    owed = dict.fromkeys(shares, 0)
    while True:
        owed = {name: owed[name] + share for name, share in shares.items()}
        name = max(owed, key=lambda each: owed[each])
        owed[name] -= sum(shares.values())
        yield name


def training_spec(config: TrainConfig, sessions: Mapping[str, Sessions]) -> EnvSpec | EnvSpecs:
    """Return what a run is trained on: a task for each group of episodes, from the first optimiser step to the last.

    Args:
        config: The run's settings.
        sessions: The environments, by the names of ``config.parts``; named tasks are requested from them.

    Returns:
        A spec of the one environment, or of those that play. The sessions outlive it.
    """
    each_step = config.rollouts // config.group_size
    parts = config.parts
    plan = _plan(config)
    seeds = training_seeds(config.seed, len(plan))
    own = {
        name: iter(training_tasks(part.tasks, sessions[name], plan.count(name), seed=part.seed))
        for name, part in parts.items()
        if part.tasks is not None
    }
    tasks: dict[str, list[dict[str, Any]]] = {name: [] for name in plan}
    for number, (name, seed) in enumerate(zip(plan, seeds, strict=True)):
        task = next(own[name]) if name in own else {"seed": seed}
        tasks[name].append({**parts[name].reset_at(number // each_step), **task})
    # Rows of a file may have more than reset takes, so they are no list, each of which would be checked.
    specs = {
        name: EnvSpec(sessions[name], tasks=iter(rows), max_turns=parts[name].max_turns, warns_of_hidden_text=False)
        for name, rows in tasks.items()
    }
    return EnvSpecs(specs, plan) if config.environments else specs[""]


@contextmanager
def open_sessions(config: TrainConfig, env_vars: Mapping[str, str] | None = None) -> Iterator[dict[str, Sessions]]:
    """Open the sessions of a run's environments: as many of each as it plays episodes at once.

    Args:
        config: The run's settings.
        env_vars: Environment variables to set for servers that are started.

    Returns:
        The sessions by the environment's name; that of a single one is empty.

    Raises:
        ConfigurationError: An environment's reset does not take what one of the run's stages passes it.
        OpenEnvError: An environment is not there, or holds fewer sessions; see `Sessions.open`.
    """
    counts = _most_at_once(config)
    with ExitStack() as stack:
        opened = {
            name: stack.enter_context(
                Sessions.open(
                    part.environment,
                    counts[name],
                    with_tools=None,
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


def _plan(config: TrainConfig) -> list[str]:
    """Return whose each group of episodes is, from the first step to the last."""
    shares = {name: own.share for name, own in config.environments.items()} or {"": 1}
    return list(islice(turns(shares), config.steps * (config.rollouts // config.group_size)))


def _most_at_once(config: TrainConfig) -> dict[str, int]:
    each_step = config.rollouts // config.group_size
    plan = _plan(config)
    steps = [plan[start : start + each_step] for start in range(0, len(plan), each_step)]
    # One that never plays in training is played before and after it.
    return {name: max(1, *(step.count(name) for step in steps)) * config.group_size for name in config.parts}
