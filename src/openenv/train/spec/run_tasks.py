"""Which tasks a run plays: for each group of episodes in training, and in evaluations."""

from collections.abc import Sequence
from random import Random
from typing import Any

from openenv.train.settings.config import TrainConfig
from openenv.train.spec.sessions import Sessions
from openenv.train.tasks.seeds import derived_seed, evaluation_seeds, training_seeds

__all__ = ["evaluation_tasks", "training_tasks"]

Task = dict[str, Any]


def training_tasks(config: TrainConfig, sessions: Sessions, count: int) -> list[Task]:
    """Return the tasks of the training's groups of episodes, in order.

    Those that ``config.tasks`` names are played over and over, each time in another order; a longer run begins with the
    same tasks.

    Args:
        config: The settings of one environment of the run; see ``TrainConfig.parts``.
        sessions: The environment.
        count: How many.

    Returns:
        What their resets are passed beside the run's own reset.

    Raises:
        ConfigurationError: ``config.tasks`` names no tasks.
    """
    if config.tasks is None:
        return _seeds(training_seeds(config.seed, count))
    named = _named_for_training(config, sessions)
    passes = -(-count // len(named))
    played = [task for number in range(passes) for task in _shuffled(named, derived_seed(config.seed, "tasks", number))]
    return played[:count]


def evaluation_tasks(config: TrainConfig, sessions: Sessions) -> list[Task]:
    """Return the tasks on which players are compared: as many as ``config.eval_episodes``, if there are so many.

    Args:
        config: The settings of one environment of the run; see ``TrainConfig.parts``.
        sessions: The environment.

    Returns:
        What their resets are passed, the run's own reset among it.

    Raises:
        ConfigurationError: ``config.evaluated_tasks`` names no tasks.
    """
    name = config.evaluated_tasks
    if name is None:
        tasks = _seeds(evaluation_seeds(config.seed, config.eval_episodes))
    else:
        tasks = sessions.named_tasks(name)[: config.eval_episodes]
    return [{**config.reset, **task} for task in tasks]


def _named_for_training(config: TrainConfig, sessions: Sessions) -> list[Task]:
    if isinstance(config.tasks, int):
        return _seeds(training_seeds(config.seed, config.tasks))
    assert config.tasks is not None
    return sessions.named_tasks(config.tasks)


def _seeds(seeds: Sequence[int]) -> list[Task]:
    return [{"seed": seed} for seed in seeds]


def _shuffled(tasks: Sequence[Task], seed: int) -> list[Task]:
    return Random(seed).sample(tasks, len(tasks))  # noqa: S311  # repeatable is what is wanted
