"""Samplers of tasks: they choose the task of each group of episodes, and learn from the rewards which tasks teach."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Literal, Protocol

from openenv.core.exceptions import ConfigurationError
from openenv.core.rubrics.bounds import reaches
from openenv.train.tasks.seeds import derived_seed

__all__ = [
    "CurriculumSampler",
    "DifficultyPoolSampler",
    "SamplerCounters",
    "SequentialSampler",
    "TaskSampler",
    "UniformSampler",
    "is_flat",
]

Task = Mapping[str, Any]
TaskKey = str | Callable[[Task], object] | None
Rewards = Sequence[float | None]


def is_flat(rewards: Rewards) -> bool:
    """Return whether a group has no variance in the rewards that are known, so that nothing is learned from it.

    Args:
        rewards: The rewards of its episodes; ``None`` for one that failed.

    Example:
        >>> is_flat([1.0, 1.0, None]), is_flat([1.0, 0.0])
        (True, False)
    """
    known = [reward for reward in rewards if reward is not None]
    return not known or reaches(min(known), max(known))


@dataclass
class SamplerCounters:
    """Counts of what a sampler has observed.

    Attributes:
        groups: Groups of episodes of which a reward is known.
        signal_groups: Those of them whose rewards differ, so that something is learned.
        episodes: Episodes whose reward is known.
        cost: Their cost; of an episode whose cost was not given, 1.
        failed: Episodes that failed, which no other count has.
    """

    groups: int = 0
    signal_groups: int = 0
    episodes: int = 0
    cost: float = 0.0
    failed: int = 0

    @property
    def signal_groups_per_episode(self) -> float:
        """Groups from which something is learned, for each episode; 0 before the first."""
        return self.signal_groups / self.episodes if self.episodes else 0.0

    @property
    def signal_groups_per_cost(self) -> float:
        """Groups from which something is learned, for a cost of 1; 0 before the first."""
        return self.signal_groups / self.cost if self.cost else 0.0

    @property
    def zero_signal_fraction(self) -> float:
        """Share of the groups from which nothing is learned; 0 before the first."""
        return 1 - self.signal_groups / self.groups if self.groups else 0.0

    def figures(self) -> dict[str, float]:
        """Return all counts and shares by their names."""
        shares = ("signal_groups_per_episode", "signal_groups_per_cost", "zero_signal_fraction")
        return {**asdict(self), **{name: getattr(self, name) for name in shares}}


class TaskSampler(Protocol):
    """Source of the tasks that are played, each by a group of episodes.

    Attributes:
        counters: Counts of what it has observed.
    """

    counters: SamplerCounters

    def sample(self, n: int) -> list[dict[str, Any]]:
        """Draw tasks.

        Args:
            n: Their number.

        Returns:
            The tasks: for each of them, what ``reset`` is passed, and what else is known of it.
        """
        ...

    def update(self, task: Task, rewards: Rewards, costs: Sequence[float] | None = None) -> None:
        """Observe the episodes of a task that was drawn.

        Args:
            task: The task.
            rewards: The rewards of its group of episodes. One that failed has ``None``, and is no reward of 0: it is
                left out of what is learned.
            costs: The costs of these episodes, as the tokens that were written.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return the state, as values of JSON, after which the same tasks are drawn."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state.

        Args:
            state: Result of `state_dict`.
        """
        ...


class _Sampler:
    """Base of the samplers: counters, and the number of the tasks drawn, from which the next draw follows."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._all_tasks = list(tasks)
        if not self._all_tasks:
            raise ConfigurationError("Expected at least one task to sample, got none.")
        self.counters = SamplerCounters()
        self._drawn = 0

    def update(self, task: Task, rewards: Rewards, costs: Sequence[float] | None = None) -> None:
        """Observe the episodes of a task that was drawn; see `TaskSampler`."""
        if costs is not None and len(costs) != len(rewards):
            raise ConfigurationError(f"Expected a cost for each of {len(rewards)} rewards, got {len(costs)} costs.")
        # Rewards that are no numbers are failures, too.
        known = [
            (reward, 1.0 if costs is None else float(costs[number]))
            for number, reward in enumerate(rewards)
            if reward is not None and math.isfinite(reward)
        ]
        counters = self.counters
        counters.failed += len(rewards) - len(known)
        if known:
            counters.groups += 1
            counters.signal_groups += not is_flat([reward for reward, _ in known])
            counters.episodes += len(known)
            counters.cost += sum(cost for _, cost in known)
            self._learn(task, known)

    def state_dict(self) -> dict[str, Any]:
        """Return the state, as values of JSON, after which the same tasks are drawn."""
        return {"sampler": type(self).__name__, "drawn": self._drawn, "counters": asdict(self.counters)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; see `TaskSampler`.

        Raises:
            ConfigurationError: It is that of another sampler.
        """
        own = type(self).__name__
        if state.get("sampler") != own:
            raise ConfigurationError(
                f"Expected the state of a {own}, got that of {state.get('sampler')!r}. Continue a training with the "
                "sampler that it was begun with."
            )
        self._drawn = state["drawn"]
        self.counters = SamplerCounters(**state["counters"])

    def _learn(self, task: Task, known: Sequence[tuple[float, float]]) -> None:
        """Learn from rewards with their costs."""


class SequentialSampler(_Sampler):
    """Draws tasks in their order, over and over.

    Args:
        tasks: The tasks.
        seeds: Seeds that all tasks are played with, one after the other; without them, a task is as it is.

    Raises:
        ConfigurationError: There are no tasks.

    Example:
        >>> SequentialSampler([{"level": 1}, {"level": 2}], seeds=[7]).sample(3)
        [{'level': 1, 'seed': 7}, {'level': 2, 'seed': 7}, {'level': 1, 'seed': 7}]
    """

    def __init__(self, tasks: Iterable[Task], seeds: Sequence[int] = ()) -> None:
        super().__init__(tasks)
        self._seeds = seeds

    def sample(self, n: int) -> list[dict[str, Any]]:
        """Draw the next tasks; see `TaskSampler`."""
        numbers = range(self._drawn, self._drawn + n)
        self._drawn += n
        return [self._task(*divmod(number, len(self._all_tasks))) for number in numbers]

    def _task(self, passes: int, index: int) -> dict[str, Any]:
        seeded = {"seed": self._seeds[passes % len(self._seeds)]} if self._seeds else {}
        return {**self._all_tasks[index], **seeded}


@dataclass
class _Estimate:
    """Sums over the episodes of tasks that are alike, of which those before count less and less."""

    successes: float = 0.0
    episodes: float = 0.0
    cost: float = 0.0

    @property
    def success(self) -> float:
        # As if one more episode had been half a success: what was never played is likeliest to teach.
        return (self.successes + 0.5) / (self.episodes + 1)


class _KeyedSampler(_Sampler):
    """Base of the samplers that draw keys by their weights, then a task of the key."""

    def __init__(
        self, tasks: Iterable[Task], rng_seed: int, key: TaskKey, decay: float = 0.9, success_threshold: float = 1.0
    ) -> None:
        super().__init__(tasks)
        if not 0 < decay <= 1:
            raise ConfigurationError(f"Expected a decay above 0 and of 1 at most, got {decay!r}.")
        self._rng_seed = rng_seed
        self._key = key
        self._decay = decay
        self._threshold = success_threshold
        self._tasks: dict[str, list[Task]] = {}
        for task in self._all_tasks:
            self._tasks.setdefault(_key_text(task, key), []).append(task)
        self._estimates = {key_text: _Estimate() for key_text in self._tasks}

    @property
    def success_rates(self) -> dict[str, float]:
        """Estimated share of successes for each key; 0.5 for one that was never played."""
        return {key: estimate.success for key, estimate in self._estimates.items()}

    def sample(self, n: int) -> list[dict[str, Any]]:
        """Draw tasks; those of one key are other ones as long as there are any; see `TaskSampler`."""
        random = Random(derived_seed(self._rng_seed, "task sampler", self._drawn))  # noqa: S311  # repeatable
        self._drawn += n
        weights = self._weights()
        keys = random.choices(list(weights), list(weights.values()), k=n)
        left: dict[str, list[Task]] = {}
        tasks = []
        for key in keys:
            if not left.get(key):
                left[key] = random.sample(self._tasks[key], min(n, len(self._tasks[key])))
            tasks.append(dict(left[key].pop()))
        return tasks

    def state_dict(self) -> dict[str, Any]:
        """Return the state, as values of JSON, after which the same tasks are drawn."""
        estimates = {key: asdict(estimate) for key, estimate in self._estimates.items() if estimate.episodes}
        return {**super().state_dict(), "estimates": estimates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; see `TaskSampler`.

        Raises:
            ConfigurationError: It is that of another sampler.
        """
        super().load_state_dict(state)
        known = state["estimates"]
        self._estimates = {key: _Estimate(**known.get(key, {})) for key in self._tasks}

    def _learn(self, task: Task, known: Sequence[tuple[float, float]]) -> None:
        estimate = self._estimates.get(_key_text(task, self._key))
        if estimate is None:
            raise ConfigurationError(f"Expected a task that this sampler has drawn, got {dict(task)!r:.200}.")
        successes = sum(reaches(reward, self._threshold) for reward, _ in known)
        estimate.successes = self._decay * estimate.successes + successes
        estimate.episodes = self._decay * estimate.episodes + len(known)
        estimate.cost = self._decay * estimate.cost + sum(cost for _, cost in known)

    def _weights(self) -> dict[str, float]:
        """Return the weight of each key."""
        return dict.fromkeys(self._tasks, 1.0)


class UniformSampler(_KeyedSampler):
    """Draws all tasks equally often, or those of each group.

    Args:
        tasks: The tasks.
        rng_seed: Seed of the draws.
        key: Name of a field, as ``group``, or a function of a task. Each of its values is drawn equally often, however
            many tasks have it; ``None`` for no difference.

    Raises:
        ConfigurationError: There are no tasks, or one lacks the key.

    Example:
        >>> sorted(task["seed"] for task in UniformSampler([{"seed": 1}, {"seed": 2}]).sample(2))
        [1, 2]
    """

    def __init__(self, tasks: Iterable[Task], rng_seed: int = 0, key: TaskKey = None) -> None:
        super().__init__(tasks, rng_seed, _alike if key is None else key)


class CurriculumSampler(_KeyedSampler):
    """Draws most often what teaches most for its cost: tasks that are neither always solved nor never.

    With a share ``p`` of successes, a group of ``G`` episodes has some of both with ``1 - p^G - (1-p)^G``. A key's
    weight is this and ``eps``, divided by its cost; the tasks of a key are drawn equally often.

    Args:
        tasks: The tasks.
        group_size: Episodes that are played of a task at a time.
        key: Name of the field, or function of a task, by which tasks are alike: the shares are measured for each of its
            values. ``None`` measures each task by itself.
        cost: Cost of an episode: ``episodes`` if all cost the same, ``tokens`` for the mean of the costs that `update`
            was passed for the key, or a function of a task.
        decay: Weight of what was known before, with each further group of the key: a model that learns changes.
        eps: Weight of what teaches nothing now, so that it is tried again.
        success_threshold: Reward from which an episode is a success.
        rng_seed: Seed of the draws.

    Raises:
        ConfigurationError: There are no tasks, one lacks the key, or a number is out of its range.

    Example:
        >>> tasks = [{"seed": seed, "difficulty": seed % 3} for seed in range(30)]
        >>> sampler = CurriculumSampler(tasks, group_size=4)
        >>> for task in sampler.sample(8):
        ...     sampler.update(task, [1.0, 0.0, None, 1.0])
        >>> sampler.counters.signal_groups, sampler.counters.failed
        (8, 8)
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        group_size: int,
        key: TaskKey = "difficulty",
        cost: Literal["episodes", "tokens"] | Callable[[Task], float] = "episodes",
        decay: float = 0.9,
        eps: float = 0.05,
        success_threshold: float = 1.0,
        rng_seed: int = 0,
    ) -> None:
        super().__init__(tasks, rng_seed, key, decay, success_threshold)
        if group_size < 2:
            raise ConfigurationError(f"Expected a group_size of 2 or more, got {group_size!r}.")
        if not (eps > 0 and math.isfinite(eps)):
            raise ConfigurationError(f"Expected a finite eps above 0, got {eps!r}.")
        if not callable(cost) and cost not in ("episodes", "tokens"):
            raise ConfigurationError(f"Expected a cost of 'episodes', 'tokens', or a function, got {cost!r}.")
        self._group_size = group_size
        self._eps = eps
        self._by_tokens = cost == "tokens"
        self._costs = {name: _mean_cost(own, cost) for name, own in self._tasks.items()} if callable(cost) else {}

    def update(self, task: Task, rewards: Rewards, costs: Sequence[float] | None = None) -> None:
        """Observe the episodes of a task that was drawn; see `TaskSampler`."""
        if self._by_tokens and costs is None:
            raise ConfigurationError("Expected the tokens of each episode as costs, since the cost is 'tokens'.")
        super().update(task, rewards, costs)

    def _weights(self) -> dict[str, float]:
        costs = self._measured_costs() if self._by_tokens else self._costs
        size = self._group_size
        return {
            key: (1 - p**size - (1 - p) ** size + self._eps) / costs.get(key, 1.0)
            for key, p in self.success_rates.items()
        }

    def _measured_costs(self) -> dict[str, float]:
        """Return the mean cost of an episode of each key; where it was never played, that of all others."""
        means = {key: max(1.0, each.cost / each.episodes) for key, each in self._estimates.items() if each.episodes}
        mean = sum(means.values()) / len(means) if means else 1.0
        return {key: means.get(key, mean) for key in self._tasks}


class DifficultyPoolSampler(_KeyedSampler):
    """Draws from three pools, into which tasks are put by their share of successes so far: hard, middle and easy ones.

    Args:
        tasks: The tasks.
        rng_seed: Seed of the draws.
        key: Name of the field, or function of a task, by which tasks are alike; ``None`` puts each task by itself.
        thresholds: Shares of successes from which a task is a middle one, and an easy one.
        weights: Weights of the hard pool, the middle one and the easy one; an empty pool has none.
        decay: Weight of what was known before, with each further group.
        success_threshold: Reward from which an episode is a success.

    Raises:
        ConfigurationError: There are no tasks, one lacks the key, or a number is out of its range.

    Example:
        >>> sampler = DifficultyPoolSampler([{"seed": 1}, {"seed": 2}])
        >>> sampler.update({"seed": 1}, [1.0] * 8)
        >>> {key: round(rate, 2) for key, rate in sampler.success_rates.items()}
        {'{"seed": 1}': 0.94, '{"seed": 2}': 0.5}
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        rng_seed: int = 0,
        key: TaskKey = None,
        thresholds: tuple[float, float] = (0.25, 0.75),
        weights: tuple[float, float, float] = (0.2, 1.0, 0.2),
        decay: float = 0.9,
        success_threshold: float = 1.0,
    ) -> None:
        super().__init__(tasks, rng_seed, key, decay, success_threshold)
        if not 0 <= thresholds[0] <= thresholds[1] <= 1:
            raise ConfigurationError(f"Expected two thresholds from 0 to 1 in ascending order, got {thresholds!r}.")
        if not all(weight > 0 and math.isfinite(weight) for weight in weights):
            raise ConfigurationError(f"Expected three finite weights above 0, got {weights!r}.")
        self._thresholds = thresholds
        self._pool_weights = weights

    def _weights(self) -> dict[str, float]:
        pools = {key: sum(rate >= each for each in self._thresholds) for key, rate in self.success_rates.items()}
        sizes = [list(pools.values()).count(pool) for pool in range(3)]
        return {key: self._pool_weights[pool] / sizes[pool] for key, pool in pools.items()}


def _alike(task: Task) -> str:
    return ""


def _key_text(task: Task, key: TaskKey) -> str:
    """Return the value of a task's key as text, as JSON keeps it."""
    if callable(key):
        return str(key(task))
    if key is None:
        return str(task["id"]) if "id" in task else json.dumps(task, sort_keys=True, default=str)
    if key not in task:
        raise ConfigurationError(
            f"Expected {key!r} in each task, by which tasks are alike to the sampler; got one with "
            f"{', '.join(map(str, task)) or 'nothing'}. Add it to the tasks, name another key, or set the key to None, "
            "which measures each task by itself."
        )
    return str(task[key])


def _mean_cost(tasks: Sequence[Task], cost: Callable[[Task], float]) -> float:
    costs = list(map(cost, tasks))
    if not all(each > 0 and math.isfinite(each) for each in costs):
        raise ConfigurationError(f"Expected a finite cost above 0 for each task, got {min(costs)!r}.")
    return sum(costs) / len(costs)
