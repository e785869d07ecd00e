"""Groups of other tasks in the place of those without a signal (dynamic sampling of DAPO, arXiv:2503.14476)."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any

from openenv.core.rubrics.bounds import reaches
from openenv.train.run.environments import group_environments
from openenv.train.settings.config import TrainConfig
from openenv.train.tasks.order import prompt_groups
from openenv.train.tasks.seeds import derived_seed

if TYPE_CHECKING:
    from trl.trainer.grpo_trainer import GRPOTrainer

    Fields = dict[str, list[Any]]
    Rollouts = Callable[[Sequence[Any], GRPOTrainer], Fields]

__all__ = ["Resampling", "is_flat"]


def is_flat(rewards: Sequence[float | None]) -> bool:
    """Return whether a group has no variance in the rewards that are known, so that nothing is learned from it.

    Example:
        >>> is_flat([1.0, 1.0, None]), is_flat([1.0, 0.0])
        (True, False)
    """
    known = [reward for reward in rewards if reward is not None]
    return not known or reaches(min(known), max(known))


class Resampling:
    """TRL's ``rollout_func`` that plays other tasks for groups without variance, and keeps the groups that have some.

    Args:
        play: Plays episodes for prompts, and gives their ``training_reward``.
        config: The run's settings: the rounds of a step, and the seed that chooses the tasks.
        dataset: The run's rows, one for each group, from which tasks of other steps are drawn.
    """

    def __init__(self, play: "Rollouts", config: TrainConfig, dataset: Sequence[Any]) -> None:
        self._play = play
        self._config = config
        self._dataset = dataset
        self._groups_each_step = config.rollouts // config.group_size
        # Rows with the same environment and the same stage of its curriculum.
        self._alike: dict[tuple[str, str], list[int]] = defaultdict(list)
        for row, name in enumerate(group_environments(config)):
            self._alike[self._key(name, row // self._groups_each_step)].append(row)

    def __call__(self, prompts: Sequence[Any], trainer: "GRPOTrainer") -> "Fields":
        """Play the episodes and the further ones, whose cost is ``resampled_episodes`` and ``resampled_tokens``."""
        fields = self._play(prompts, trainer)
        names = fields.get("environment_name") or [""] * len(prompts)
        cost = {name: [0] * len(prompts) for name in ("resampled_episodes", "resampled_tokens")}
        step = trainer.state.global_step
        random = Random(derived_seed(self._config.seed, "resampled tasks", step))  # noqa: S311  # repeatable
        drawn: set[int] = set()
        flat = _flat_of(prompt_groups(prompts), fields)
        for _ in range(self._config.resample):
            rows = [self._draw(names[group[0]], step, random, drawn) for group in flat]
            chosen = [(group, row) for group, row in zip(flat, rows, strict=True) if row is not None]
            if not chosen:
                break
            positions = [position for group, _ in chosen for position in group]
            again = [self._dataset[row]["prompt"] for group, row in chosen for _ in group]
            other = self._play(again, trainer)
            for number, position in enumerate(positions):
                cost["resampled_episodes"][position] += 1
                cost["resampled_tokens"][position] += sum(other["env_mask"][number])
            for numbers in _flat_of(_slices(chosen), other, are_flat=False):
                for number in numbers:
                    for name, values in fields.items():
                        values[positions[number]] = other[name][number]
            flat = _flat_of(flat, fields)
        return {**fields, **cost}

    def _draw(self, environment: str, step: int, random: Random, drawn: set[int]) -> int | None:
        """Draw a row of another step, which was not drawn before; ``None`` where there is none."""
        alike = self._alike[self._key(environment, step)]
        rows = [row for row in alike if row // self._groups_each_step != step and row not in drawn]
        if not rows:
            return None
        drawn.add(row := random.choice(rows))
        return row

    def _key(self, environment: str, step: int) -> tuple[str, str]:
        return environment, repr(self._config.parts[environment].reset_at(step))


def _slices(chosen: Sequence[tuple[list[int], int]]) -> list[list[int]]:
    """Return the numbers of the episodes of each group that is played again."""
    numbers = iter(range(sum(len(group) for group, _ in chosen)))
    return [list(islice(numbers, len(group))) for group, _ in chosen]


def _flat_of(groups: Sequence[list[int]], fields: "Fields", *, are_flat: bool = True) -> list[list[int]]:
    rewards = fields["training_reward"]
    return [group for group in groups if is_flat([rewards[number] for number in group]) is are_flat]
