"""Scores of a run's players, all of them on the same fresh tasks."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console

from openenv.core.exceptions import EnvironmentFailedError
from openenv.records.answers import commonest_texts
from openenv.records.failures import failure_counts, failures_text
from openenv.records.scores import Score
from openenv.train.agents.agent import Agent, EpisodeRecorder, play
from openenv.train.agents.player_agent import PlayerAgent, PlayerMaker, form_of, random_players, scripted_players
from openenv.train.agents.policy import Policy
from openenv.train.agents.policy_agent import PolicyAgent
from openenv.train.dataset.play_progress import PlayProgress
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.spending import SpendingCounter
from openenv.train.evaluation.statistics import Statistics, TaskAttempt
from openenv.train.rollout.sessions import Sessions
from openenv.train.settings.config import TrainConfig
from openenv.train.tasks.seeds import derived_seed
from openenv.train.tasks.task_choice import evaluation_tasks

__all__ = ["random_agent", "score", "score_of", "scripted_agent"]

# Tasks whose episodes are shown before and after a training, beside each other.
_SHOWN_TASKS = 5


def score(
    agent: Agent,
    sessions: Sessions,
    config: TrainConfig,
    sample_seed: int | None = None,
    *,
    recorder: EpisodeRecorder | None = None,
    console: Console | None = None,
    heading: str = "",
) -> Score:
    """Score a player, as ``openenv eval`` evaluates the model of a run: the same tasks, play and statistics."""
    # Where it takes long, its progress is shown, below the heading.
    tasks = evaluation_tasks(
        config.evaluated_tasks, sessions, config.eval_episodes, seed=config.seed, reset=config.reset
    )
    episodes = []
    spending = SpendingCounter(config.model if isinstance(agent, PolicyAgent) else None, config.price_list)
    with PlayProgress(console or Console(quiet=True), len(tasks), heading=heading, has_last_line=False) as progress:
        for played in play(agent, enumerate(tasks), sessions, recorder):
            progress.add(played)
            episodes.append(played.episode)
            spending.add(played.spent)
    return replace(score_of(episodes, sample_seed), costs=spending.drain())


def random_agent(policy: Policy, sessions: Sessions, config: TrainConfig) -> PlayerAgent:
    """Return the random player with which a run compares its model; its texts are of the tiny policy's words."""
    # A vocabulary comes in another order each time.
    words = sorted(word for word in policy.tokenizer.get_vocab() if word.isalnum()) if config.is_tiny else []
    make_player = random_players(sessions, policy.actions, words or ("a", "b", "c"))
    return _player_agent("random player", make_player, sessions, config)


def scripted_agent(sessions: Sessions, config: TrainConfig) -> PlayerAgent | None:
    """Return the player that an environment's package has; ``None`` where it has none."""
    make_player = scripted_players(sessions)
    return None if make_player is None else _player_agent("scripted player", make_player, sessions, config)


def _player_agent(name: str, make_player: PlayerMaker, sessions: Sessions, config: TrainConfig) -> PlayerAgent:
    return PlayerAgent(
        make_player,
        lambda number, task: derived_seed(task.get("seed", number), name),
        form_of(sessions),
        config.max_turns,
        rule=config.answer_rule,
    )


def score_of(episodes: Sequence[Episode], sample_seed: int | None = None) -> Score:
    """Score one episode of each task, with one as the sample; those that failed are left out, and counted by kind.

    Raises:
        EnvironmentFailedError: All of them failed.
    """
    counted = [episode for episode in episodes if episode.error is None]
    failures = failure_counts(kind for episode in episodes if (kind := episode.failure) is not None)
    if not counted:
        first = next((episode.error for episode in episodes if episode.error is not None), None)
        raise EnvironmentFailedError(
            f"All {len(episodes)} episodes failed, so there is no score: {failures_text(failures)}. "
            f"The first one: {first}"
        ) from first
    statistics = Statistics.of([[TaskAttempt.of_episode(episode)] for episode in counted])
    # The sample where no episode has the seed.
    worst = min(counted, key=lambda episode: episode.reward)
    sample = next((episode for episode in counted if episode.seed == sample_seed), worst)
    rewards = [episode.reward for episode in counted]
    mean = statistics.mean_reward
    variance = sum((reward - mean.value) ** 2 for reward in rewards) / max(1, len(rewards) - 1)
    return Score(
        mean_reward=mean.value,
        standard_error=math.sqrt(variance / len(rewards)),
        mean_length=statistics.mean_length,
        illegal_actions=statistics.illegal_actions,
        episodes=len(counted),
        sample_seed=sample.seed,
        sample=[turn.as_json() for turn in sample.turns],
        rewards=rewards,
        examples=_examples(counted),
        first_episodes=[_shown(episode) for episode in counted[:_SHOWN_TASKS]],
        illegal_texts=commonest_texts(text for episode in counted for text in episode.illegal_texts),
        reward_components={name: estimate.value for name, estimate in statistics.components.items()},
        low=mean.low,
        high=mean.high,
        legal_answers=_legal_share(counted),
        failures=failures,
    )


def _legal_share(episodes: Sequence[Episode]) -> float | None:
    actions = sum(len(episode.turns) for episode in episodes)
    answers = actions + sum(episode.answers_without_call for episode in episodes)
    illegal = sum(episode.illegal_actions for episode in episodes)
    return (actions - illegal) / answers if answers else None


def _examples(episodes: Sequence[Episode]) -> dict[str, dict[str, Any]]:
    ranked = sorted(episodes, key=lambda episode: episode.reward, reverse=True)
    # Of two episodes none is in the middle; one alone is the best.
    names = {len(ranked) // 2: "median", len(ranked) - 1: "worst", 0: "best"}
    return {name: _shown(ranked[number]) for number, name in sorted(names.items())}


def _shown(episode: Episode) -> dict[str, Any]:
    turns = [turn.as_json() for turn in episode.turns]
    return {"seed": episode.seed, "reward": episode.reward, "turns": turns}
