"""Groups of other tasks instead of those without a signal: the dynamic sampling of DAPO (arXiv:2503.14476)."""

from collections.abc import Callable, Sequence
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any

from openenv.train.samplers import is_flat
from openenv.train.settings.config import TrainConfig
from openenv.train.tasks.order import prompt_groups
from openenv.train.tasks.seeds import derived_seed

if TYPE_CHECKING:
    from trl.trainer.grpo_trainer import GRPOTrainer

    Fields = dict[str, list[Any]]
    Rollouts = Callable[[Sequence[Any], GRPOTrainer], Fields]

__all__ = ["play_resampled"]


def play_resampled(
    play: "Rollouts",
    prompts: Sequence[Any],
    trainer: "GRPOTrainer",
    config: TrainConfig,
    dataset: Sequence[Any],
    environments: Sequence[str],
) -> "Fields":
    """Play episodes, and other tasks for groups without variance, of which those that have some are kept instead.

    Args:
        play: Plays episodes for prompts, and gives their ``training_reward``.
        prompts: The prompts of a step.
        trainer: Generates, as it is set up.
        config: The run's settings: the rounds of a step, and the seed that chooses the tasks.
        dataset: The run's rows, one for each group, from which tasks of other steps are drawn.
        environments: The environment of each row.

    Returns:
        The fields of ``play``, and the cost of the other episodes: ``resampled_episodes`` and ``resampled_tokens``.
    """
    fields = play(prompts, trainer)
    names = fields.get("environment_name") or [""] * len(prompts)
    cost = {name: [0] * len(prompts) for name in ("resampled_episodes", "resampled_tokens")}
    step = trainer.state.global_step
    random = Random(derived_seed(config.seed, "resampled tasks", step))  # noqa: S311  # repeatable is what is wanted
    drawn: set[int] = set()
    flat = _flat_of(prompt_groups(prompts), fields)
    for _ in range(config.resample):
        chosen: list[tuple[list[int], int]] = []
        for group in flat:
            rows = set(_rows_alike(config, environments, names[group[0]], step)) - drawn
            if rows:
                chosen.append((group, random.choice(sorted(rows))))
                drawn.add(chosen[-1][1])
        if not chosen:
            break
        positions = [position for group, _ in chosen for position in group]
        other = play([dataset[row]["prompt"] for group, row in chosen for _ in group], trainer)
        for number, position in enumerate(positions):
            cost["resampled_episodes"][position] += 1
            cost["resampled_tokens"][position] += sum(other["env_mask"][number])
        numbers = iter(range(len(positions)))
        for own in _flat_of([list(islice(numbers, len(group))) for group, _ in chosen], other, are_flat=False):
            for number in own:
                for name, values in fields.items():
                    values[positions[number]] = other[name][number]
        flat = _flat_of(flat, fields)
    return {**fields, **cost}


def _flat_of(groups: Sequence[list[int]], fields: "Fields", *, are_flat: bool = True) -> list[list[int]]:
    rewards = fields["training_reward"]
    return [group for group in groups if is_flat([rewards[number] for number in group]) is are_flat]


def _rows_alike(config: TrainConfig, environments: Sequence[str], environment: str, step: int) -> list[int]:
    """Return the rows of other steps with the same environment, in the same stage of its curriculum."""
    part, groups_each_step = config.parts[environment], config.rollouts // config.group_size
    resets = [part.reset_at(other) for other in range(config.steps)]
    return [
        row
        for row, name in enumerate(environments)
        if name == environment and row // groups_each_step != step and resets[row // groups_each_step] == resets[step]
    ]
