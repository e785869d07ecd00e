"""What a player reached over many episodes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from openenv.train.episodes.episode import Episode
from openenv.train.episodes.illegal_texts import commonest_texts

__all__ = [
    "AFTER",
    "BEFORE",
    "MODEL",
    "RANDOM",
    "SCRIPTED",
    "WARMED_UP",
    "Score",
    "component_means",
    "figure_name",
    "sampled",
    "score_name",
]

BEFORE, WARMED_UP, AFTER = "before training", "after warm-up", "after training"
MODEL = (BEFORE, WARMED_UP, AFTER)
RANDOM, SCRIPTED = "random player", "scripted player"


@dataclass(frozen=True)
class Score:
    """What a player reached.

    Attributes:
        mean_reward: Mean over the episodes of the sum of the environment's rewards.
        standard_error: Of that mean.
        mean_length: Mean number of actions in an episode.
        illegal_actions: Mean number of illegal actions in an episode.
        episodes: How many episodes were played to their end.
        sample_seed: The seed of the episode in ``sample``.
        sample: The turns of one episode: what was shown, what was done, the reward.
        rewards: The sum of the rewards of each episode.
        examples: The ``best``, the ``median`` and the ``worst`` episode, each with its ``seed``, ``reward`` and
            ``turns``; fewer where fewer were played.
        illegal_texts: The commonest answers that were no legal action, and how often each was given.
        reward_components: Mean over the episodes of the sum of each component's scores, by name; without the episodes
            in which the component was not called. Empty where the environment has no rubric.
    """

    mean_reward: float
    standard_error: float
    mean_length: float
    illegal_actions: float
    episodes: int
    sample_seed: int | None
    sample: list[dict[str, Any]]
    rewards: list[float] = field(default_factory=list)
    examples: dict[str, dict[str, Any]] = field(default_factory=dict)
    illegal_texts: dict[str, int] = field(default_factory=dict)
    reward_components: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, episodes: Sequence[Episode], sample_seed: int | None = None) -> "Score":
        """Score some episodes; those in which the environment failed are left out.

        Args:
            episodes: The episodes; the environment failed in some of them at most.
            sample_seed: Seed of the episode to take as the sample; ``None`` for the one that went worst.
        """
        counted = [episode for episode in episodes if episode.error is None]
        worst = min(counted, key=lambda episode: episode.reward)
        sample = next((episode for episode in counted if episode.seed == sample_seed), worst)
        rewards = [episode.reward for episode in counted]
        mean = sum(rewards) / len(rewards)
        variance = sum((reward - mean) ** 2 for reward in rewards) / max(1, len(rewards) - 1)
        return cls(
            mean_reward=mean,
            standard_error=math.sqrt(variance / len(rewards)),
            mean_length=sum(len(episode.turns) for episode in counted) / len(counted),
            illegal_actions=sum(episode.illegal_actions for episode in counted) / len(counted),
            episodes=len(counted),
            sample_seed=sample.seed,
            sample=[turn.as_json() for turn in sample.turns],
            rewards=rewards,
            examples=_examples(counted),
            illegal_texts=commonest_texts(text for episode in counted for text in episode.illegal_texts),
            reward_components=component_means([episode.reward_components for episode in counted]),
        )


def component_means(episodes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each component over the episodes in which it was called.

    Args:
        episodes: Each episode's components by name.

    Example:
        >>> component_means([{"format": 1.0}, {"format": 0.0, "answer": 0.5}])
        {'format': 0.5, 'answer': 0.5}
    """
    names = dict.fromkeys(name for components in episodes for name in components)
    return {name: fmean(each[name] for each in episodes if name in each) for name in names}


def _examples(episodes: Sequence[Episode]) -> dict[str, dict[str, Any]]:
    ranked = sorted(episodes, key=lambda episode: episode.reward, reverse=True)
    # Of two episodes none is in the middle; one alone is the best.
    names = {len(ranked) // 2: "median", len(ranked) - 1: "worst", 0: "best"}
    return {
        name: {
            "seed": ranked[place].seed,
            "reward": ranked[place].reward,
            "turns": [turn.as_json() for turn in ranked[place].turns],
        }
        for place, name in sorted(names.items())
    }


def sampled(player: str) -> str:
    """Return what the sampled figure of a model is called, beside the greedy one.

    Example:
        >>> sampled("after training")
        'after training, sampled'
    """
    return f"{player}, sampled"


def figure_name(player: str) -> str:
    """Return what a score is called for people: a model's says whether it is the greedy figure.

    Example:
        >>> figure_name("catch: after training"), figure_name("random player")
        ('catch: after training, greedy', 'random player')
    """
    return f"{player}, greedy" if player.endswith(MODEL) else player


def score_name(player: str, environment: str) -> str:
    """Return what a player's score in an environment is called: the player alone if the environment has no name.

    Example:
        >>> score_name("random player", "catch")
        'catch: random player'
    """
    return f"{environment}: {player}" if environment else player
