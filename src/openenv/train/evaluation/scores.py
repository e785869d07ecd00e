"""Scores of episodes: what a player reached over many of them."""

import math
from collections.abc import Sequence
from typing import Any

from openenv.core.rubrics.bounds import reward_range
from openenv.records.scores import Score, component_means
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.illegal_texts import commonest_texts
from openenv.train.evaluation.intervals import mean_estimate

__all__ = ["score_of"]


def score_of(episodes: Sequence[Episode], sample_seed: int | None = None) -> Score:
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
    estimate = mean_estimate(rewards, reward_range(rewards))
    return Score(
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
        low=estimate.low,
        high=estimate.high,
    )


def _examples(episodes: Sequence[Episode]) -> dict[str, dict[str, Any]]:
    ranked = sorted(episodes, key=lambda episode: episode.reward, reverse=True)
    # Of two episodes none is in the middle; one alone is the best.
    names = {len(ranked) // 2: "median", len(ranked) - 1: "worst", 0: "best"}
    return {
        name: {
            "seed": ranked[number].seed,
            "reward": ranked[number].reward,
            "turns": [turn.as_json() for turn in ranked[number].turns],
        }
        for number, name in sorted(names.items())
    }
