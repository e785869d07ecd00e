"""Scores of a player over many episodes of a run, and the names of the players."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from openenv.traces.episodes import SCRIPTED_PLAYER

__all__ = [
    "AFTER",
    "BEFORE",
    "MODEL",
    "RANDOM",
    "SCRIPTED",
    "WARMED_UP",
    "Score",
    "component_means",
    "evaluation_metric",
    "figure_name",
    "sampled",
    "score_name",
    "side_by_side",
]

BEFORE, WARMED_UP, AFTER = "before training", "after warm-up", "after training"
MODEL = (BEFORE, WARMED_UP, AFTER)
RANDOM, SCRIPTED = "random player", SCRIPTED_PLAYER


@dataclass(frozen=True)
class Score:
    """Figures of a player.

    Attributes:
        mean_reward: Mean over the episodes of the sum of the environment's rewards.
        standard_error: Of that mean.
        mean_length: Mean number of actions in an episode.
        illegal_actions: Mean number of illegal actions in an episode.
        episodes: Number of episodes that were played to their end.
        sample_seed: The seed of the episode in ``sample``.
        sample: The turns of one episode: the observation, the action, the reward.
        rewards: The sum of the rewards of each episode.
        examples: The ``best``, the ``median`` and the ``worst`` episode, each with its ``seed``, ``reward`` and
            ``turns``; fewer where fewer were played.
        illegal_texts: The commonest answers that were no legal action, and how often each was given.
        reward_components: Mean over the episodes of the sum of each component's scores, by name; without the episodes
            in which the component was not called. Empty where the environment has no rubric.
        first_episodes: The episodes of the first tasks, as ``examples`` has them: of the same ones for each player.
        low: Lower end of the mean's 95% confidence interval; ``None`` of one episode, and in runs of earlier versions.
        high: Upper end.
        failures: Numbers of further episodes that failed, by the kind of failure; they are in none of the figures.
        legal_answers: Share of the answers that were legal actions, as calls of tools have to be; ``None`` without
            answers, and in runs of earlier versions.
        costs: What all of the episodes have cost, under the names of the metrics of a step, such as ``cost/price_usd``,
            and what participants in them have used; without prices ``participants/...`` alone.
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
    first_episodes: list[dict[str, Any]] = field(default_factory=list)
    low: float | None = None
    high: float | None = None
    legal_answers: float | None = None
    failures: dict[str, int] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)

    @property
    def legal(self) -> str:
        """The share of legal answers in words; empty where it is not known."""
        return "" if self.legal_answers is None else f"{self.legal_answers:.0%}"

    @property
    def figure(self) -> str:
        """The mean with its interval, or with its standard error where an earlier version has estimated none.

        Example:
            >>> Score(0.5, 0.1, 3.0, 0.0, 20, None, [], low=0.29, high=0.71).figure
            '+0.500 [+0.290, +0.710]'
        """
        if self.low is None or self.high is None:
            return f"{self.mean_reward:+.3f} ± {self.standard_error:.3f}"
        return f"{self.mean_reward:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def component_means(episodes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each component over the episodes in which it was called.

    Example:
        >>> component_means([{"format": 1.0}, {"format": 0.0, "answer": 0.5}])
        {'format': 0.5, 'answer': 0.5}
    """
    names = dict.fromkeys(name for components in episodes for name in components)
    return {name: fmean(each[name] for each in episodes if name in each) for name in names}


def side_by_side(before: Score, after: Score) -> list[tuple[str, str, float, str, float]]:
    """Return what was shown first, the answers and the reward before, and those after, of each task that both have."""
    later = {str(each["seed"]): each for each in after.first_episodes}
    return [
        (_shown(first), _answers(first), first["reward"], _answers(second), second["reward"])
        for first in before.first_episodes
        if (second := later.get(str(first["seed"]))) is not None
    ]


def _shown(episode: Mapping[str, Any]) -> str:
    return str(episode["turns"][0]["observation"]) if episode["turns"] else ""


def _answers(episode: Mapping[str, Any]) -> str:
    return "\n".join(turn["action"] or "(nothing)" for turn in episode["turns"])


def sampled(player: str) -> str:
    """Return the name of a model's sampled figure, beside the greedy one.

    Example:
        >>> sampled("after training")
        'after training, sampled'
    """
    return f"{player}, sampled"


def figure_name(player: str) -> str:
    """Return the name of a score for people; the figure of a greedy model is named so.

    Example:
        >>> figure_name("catch: after training"), figure_name("random player")
        ('catch: after training, greedy', 'random player')
    """
    return f"{player}, greedy" if player.endswith(MODEL) else player


def evaluation_metric(environment: str) -> str:
    """Return the metric of evaluations in training: of one of several environments, or of a run as a whole.

    Example:
        >>> evaluation_metric(""), evaluation_metric("catch")
        ('evaluation/reward', 'evaluation/catch/reward')
    """
    return f"evaluation/{environment}/reward" if environment else "evaluation/reward"


def score_name(player: str, environment: str) -> str:
    """Return the name of a player's score in an environment: the player alone if the environment has no name.

    Example:
        >>> score_name("random player", "catch")
        'catch: random player'
    """
    return f"{environment}: {player}" if environment else player
