"""Section ``sampler`` of a run's settings: a sampler chooses the task of each group of episodes."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from openenv.core.variables import Option
from openenv.train.samplers import (
    CurriculumSampler,
    DifficultyPoolSampler,
    SequentialSampler,
    TaskSampler,
    UniformSampler,
)
from openenv.train.tasks.seeds import derived_seed

__all__ = ["SamplerSettings"]


class SamplerSettings(BaseModel):
    """Choose the task of each group of episodes by a sampler, instead of in an order that is fixed before.

    Example:
        >>> sampler = SamplerSettings(kind="curriculum", key="level").make([{"level": 1}], group_size=8, seed=1)
        >>> sampler.sample(1)
        [{'level': 1}]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Annotated[
        Literal["sequential", "uniform", "curriculum", "pools"], Option(("--sampler",), heading="Tasks")
    ] = Field(
        default="curriculum",
        description="sampler that chooses the tasks: in order, at random, by what they teach, or from pools of hard, "
        "middle and easy ones; default: none, so that the order is fixed before",
    )
    key: Annotated[str | None, Option(("--sampler-key",), heading="Tasks")] = Field(
        default=None,
        description="field of tasks that are alike, as difficulty or group; default: difficulty where all tasks have "
        "it, else each task by itself; of uniform, all are alike",
    )
    cost: Annotated[Literal["episodes", "tokens"], Option(("--sampler-cost",), heading="Tasks")] = Field(
        default="episodes", description="cost that curriculum divides the weights by: all episodes alike, or tokens"
    )
    success_threshold: Annotated[float, Option(("--sampler-success",), heading="Tasks")] = Field(
        default=1.0, description="reward from which an episode is a success to a sampler"
    )
    decay: float = Field(default=0.9, gt=0, le=1, description="weight of earlier groups with each further one")
    eps: float = Field(default=0.05, gt=0, description="weight in curriculum of tasks that teach nothing now")

    def make(self, tasks: Sequence[Mapping[str, Any]], *, group_size: int, seed: int) -> TaskSampler:
        """Return the sampler of a run's tasks.

        Raises:
            ConfigurationError: A task lacks the key.
        """
        if self.kind == "sequential":
            return SequentialSampler(tasks)
        rng_seed = derived_seed(seed, "sampler")
        if self.kind == "uniform":
            return UniformSampler(tasks, rng_seed, self.key)
        key = "difficulty" if self.key is None and all("difficulty" in task for task in tasks) else self.key
        decay, threshold = self.decay, self.success_threshold
        if self.kind == "pools":
            return DifficultyPoolSampler(tasks, rng_seed, key, decay=decay, success_threshold=threshold)
        return CurriculumSampler(tasks, group_size, key, self.cost, decay, self.eps, threshold, rng_seed)
