"""Statistics of attempts at tasks: what runs, ``openenv eval`` and their reports show of a player."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import Any, Self

from openenv.core.rubrics.bounds import reward_range
from openenv.records.evaluation import Estimate
from openenv.train.episodes.episode import Episode
from openenv.train.evaluation.intervals import mean_estimate

__all__ = ["Statistics", "TaskAttempt"]


@dataclass(frozen=True)
class TaskAttempt:
    """Actions, and sums of rewards and scores, of an episode that counts: the environment did not fail in it."""

    reward: float
    length: int
    illegal_actions: int
    components: Mapping[str, float]

    @classmethod
    def of_episode(cls, episode: Episode) -> Self:
        """Return what counts of an episode."""
        return cls(episode.reward, len(episode.turns), episode.illegal_actions, episode.reward_components)

    @classmethod
    def of_line(cls, line: Mapping[str, Any]) -> Self:
        """Return what counts of an episode in a `Collection`."""
        components = line.get("reward_components", {})
        return cls(line["reward"], line["length"], line["illegal_actions"], components)


@dataclass(frozen=True)
class Statistics:
    """Means of what a player reached.

    Attributes:
        mean_reward: Mean reward of an episode, of one value for each task.
        mean_length: Mean number of actions in an episode.
        illegal_actions: Mean number of illegal actions in an episode.
        components: Mean of each component's scores, summed over an episode, by name; without the episodes in which the
            component was not called.
        tasks: Mean reward of each task; ``None`` where no attempt counts.
    """

    mean_reward: Estimate
    mean_length: float
    illegal_actions: float
    components: dict[str, Estimate]
    tasks: list[Estimate | None]

    @classmethod
    def of(cls, tasks: Sequence[Sequence[TaskAttempt]]) -> Self:
        """Compute them of the attempts at each task that count; one at least has to."""
        attempts = list(chain.from_iterable(tasks))
        rewards = [[attempt.reward for attempt in each] for each in tasks]
        bounds = reward_range(chain.from_iterable(rewards))
        names = dict.fromkeys(name for attempt in attempts for name in attempt.components)
        return cls(
            mean_reward=mean_estimate([fmean(each) for each in rewards if each], bounds),
            mean_length=fmean(attempt.length for attempt in attempts),
            illegal_actions=fmean(attempt.illegal_actions for attempt in attempts),
            components={name: _component(name, tasks) for name in names},
            tasks=[mean_estimate(each, bounds) if each else None for each in rewards],
        )


def _component(name: str, tasks: Sequence[Sequence[TaskAttempt]]) -> Estimate:
    totals = [[attempt.components[name] for attempt in each if name in attempt.components] for each in tasks]
    return mean_estimate([fmean(each) for each in totals if each], reward_range(chain.from_iterable(totals)))
