"""How good is a player? Mean rewards over fresh seeds, the same seeds for every player."""

from collections.abc import Callable, Iterator
from typing import cast

import torch

from openenv.train.config import TrainConfig
from openenv.train.players import Player, RandomPlayer, RandomToolPlayer, play_players
from openenv.train.policy import Policy
from openenv.train.scores import Score
from openenv.train.seeds import derived_seed, evaluation_seeds
from openenv.train.sessions import Sessions

__all__ = ["evaluate_policy", "evaluate_random_player", "evaluate_scripted_player"]


def evaluate_policy(policy: Policy, sessions: Sessions, config: TrainConfig, sample_seed: int | None = None) -> Score:
    """Score a language model, playing at the run's ``eval_temperature``.

    Args:
        policy: The model and its dialogue.
        sessions: The environment.
        config: Says how many episodes, and at which temperature.
        sample_seed: Seed of the episode to keep as the score's sample; ``None`` for the one that went worst.

    Returns:
        The score.
    """
    player = policy.player(sessions, config)
    generator = torch.Generator(policy.model.device).manual_seed(derived_seed(config.seed, "evaluation"))
    episodes = []
    for seeds in _batches(sessions, config):
        tasks = [{**config.reset, "seed": seed} for seed in seeds]
        episodes += player.play_tasks(tasks, temperature=config.eval_temperature, generator=generator)
    return Score.of(episodes, sample_seed)


def evaluate_random_player(policy: Policy, sessions: Sessions, config: TrainConfig) -> Score:
    """Score a player that chooses legal actions at random."""
    words = [word for word in policy.tokenizer.get_vocab() if word.isalnum()] if config.is_tiny else ()
    tools = sessions.tools
    if tools is not None:
        return _evaluate(lambda seed: RandomToolPlayer(tools, derived_seed(seed, "random player")), sessions, config)
    return _evaluate(
        lambda seed: RandomPlayer(policy.actions, derived_seed(seed, "random player"), words or ("a", "b", "c")),
        sessions,
        config,
    )


def evaluate_scripted_player(sessions: Sessions, config: TrainConfig) -> Score | None:
    """Score the player that the environment's package brings along; ``None`` if it has none."""
    package = sessions.package
    if package is None or package.make_player(0) is None:
        return None
    return _evaluate(
        lambda seed: cast("Player", package.make_player(derived_seed(seed, "scripted player"))), sessions, config
    )


def _evaluate(make_player: Callable[[int], Player], sessions: Sessions, config: TrainConfig) -> Score:
    episodes = []
    for seeds in _batches(sessions, config):
        players = [make_player(seed) for seed in seeds]
        episodes += play_players(sessions, players, seeds, max_turns=config.max_turns, reset=config.reset)
    return Score.of(episodes)


def _batches(sessions: Sessions, config: TrainConfig) -> Iterator[list[int]]:
    seeds = evaluation_seeds(config.seed, config.eval_episodes)
    for start in range(0, len(seeds), len(sessions)):
        yield seeds[start : start + len(sessions)]
