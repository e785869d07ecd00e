"""Several environments in one run: whose turn it is, and their episodes in one batch."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from openenv.core.reset_check import check_reset_parameters
from openenv.train.config import TrainConfig
from openenv.train.run_tasks import training_tasks
from openenv.train.seeds import training_seeds
from openenv.train.sessions import Sessions

if TYPE_CHECKING:
    from trl.trainer.grpo_trainer import GRPOTrainer

    from openenv.train.grpo import EpisodeRollouts

__all__ = ["JointRollouts", "joint_prompts", "open_sessions", "turns"]


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


def joint_prompts(config: TrainConfig, sessions: Mapping[str, Sessions]) -> list[str]:
    """Return a prompt for each group of episodes: the environment's name, and what its resets are passed, as JSON.

    Args:
        config: The run's settings.
        sessions: The environments; only those whose tasks are named are asked for them.
    """
    each_step = config.rollouts // config.group_size
    parts = config.parts
    plan = _plan(config)
    seeds = training_seeds(config.seed, len(plan))
    own = {
        name: iter(training_tasks(part, sessions[name], plan.count(name)))
        for name, part in parts.items()
        if part.tasks is not None
    }
    tasks = [next(own[name]) if name in own else {"seed": seed} for name, seed in zip(plan, seeds, strict=True)]
    return [
        json.dumps([name, {**parts[name].reset_at(number // each_step), **task}])
        for number, (name, task) in enumerate(zip(plan, tasks, strict=True))
    ]


@contextmanager
def open_sessions(config: TrainConfig) -> Iterator[dict[str, Sessions]]:
    """Open the sessions of a run's environments: as many of each as it plays episodes at once.

    Args:
        config: The run's settings.

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
                Sessions.open(part.environment, counts[name], with_tools=None, step_timeout_s=config.step_timeout_s)
            )
            for name, part in config.parts.items()
        }
        for name, part in config.parts.items():
            schema = opened[name].client.schemas().get("reset")
            for reset in part.resets:
                check_reset_parameters(schema, reset, f"reset, for {part.environment}")
        yield opened


class JointRollouts:
    """TRL's ``rollout_func`` for several environments: each plays its own prompts of a batch.

    Args:
        rollouts: What plays, by the environment's name.
    """

    def __init__(self, rollouts: Mapping[str, "EpisodeRollouts"]) -> None:
        self._rollouts = rollouts

    def __call__(self, prompts: Sequence[str], trainer: "GRPOTrainer") -> dict[str, list[Any]]:
        """Play the episodes.

        Args:
            prompts: Those of `joint_prompts`.
            trainer: Says which step it is, and generates, as it is set up.

        Returns:
            What `EpisodeRollouts` returns, and the environment of each episode as ``environment_name``.
        """
        told = [json.loads(prompt) for prompt in prompts]
        names = [name for name, _ in told]
        rows: list[dict[str, Any]] = [{} for _ in told]
        for name, rollouts in self._rollouts.items():
            places = [place for place, own in enumerate(names) if own == name]
            fields = rollouts([json.dumps(told[place][1]) for place in places], trainer) if places else {}
            for field, values in fields.items():
                for place, value in zip(places, values, strict=True):
                    rows[place][field] = value
        return {"environment_name": names, **{field: [row[field] for row in rows] for field in rows[0]}}


def _plan(config: TrainConfig) -> list[str]:
    """Return whose each group of episodes is, from the first step to the last."""
    shares = {name: own.share for name, own in config.environments.items()}
    return list(islice(turns(shares), config.steps * (config.rollouts // config.group_size)))


def _most_at_once(config: TrainConfig) -> dict[str, int]:
    if not config.environments:
        return {"": config.rollouts}
    each_step = config.rollouts // config.group_size
    plan = _plan(config)
    steps = [plan[start : start + each_step] for start in range(0, len(plan), each_step)]
    # One that never plays in training is played before and after it.
    return {name: max(1, *(step.count(name) for step in steps)) * config.group_size for name in config.environments}
