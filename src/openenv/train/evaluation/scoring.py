"""How good is a player? Mean rewards over fresh seeds, the same seeds for every player."""

from collections.abc import Callable, Iterator
from typing import Any, cast

from openenv.train.agents.players import Player, RandomPlayer, RandomToolPlayer
from openenv.train.agents.policy import Policy
from openenv.train.agents.recording import play_tasks
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.scores import Score
from openenv.train.settings.config import TrainConfig
from openenv.train.spec.run_tasks import evaluation_tasks
from openenv.train.spec.sessions import Sessions
from openenv.train.tasks.seeds import derived_seed, evaluation_draws

__all__ = ["evaluate_policy", "evaluate_random_player", "evaluate_scripted_player"]


def evaluate_policy(
    policy: Policy,
    sessions: Sessions,
    config: TrainConfig,
    sample_seed: int | None = None,
    *,
    greedy: bool = False,
) -> Score:
    """Score a language model, as ``openenv eval`` scores the model of a run.

    Args:
        policy: The model and its renderer.
        sessions: The environment.
        config: Says how many episodes, and at which temperature (its ``sampled_temperature``).
        sample_seed: Seed of the episode to keep as the score's sample; ``None`` for the one that went worst.
        greedy: Whether the most likely token is taken instead.

    Returns:
        The score.
    """
    temperature = 0.0 if greedy else config.sampled_temperature
    episodes: list[Episode] = []
    for tasks in _batches(sessions, config):
        draws = evaluation_draws(config.seed, range(len(episodes), len(episodes) + len(tasks)))
        episodes += policy.play(sessions, config, tasks, temperature=temperature, randomness=draws)
    return Score.of(episodes, sample_seed)


def evaluate_random_player(policy: Policy, sessions: Sessions, config: TrainConfig) -> Score:
    """Score a player that chooses legal actions at random."""
    # A vocabulary comes in another order each time.
    words = sorted(word for word in policy.tokenizer.get_vocab() if word.isalnum()) if config.is_tiny else ()
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
    episodes: list[Episode] = []
    for tasks in _batches(sessions, config):
        # A task without a seed has a number of its own.
        seeds = [task.get("seed", len(episodes) + number) for number, task in enumerate(tasks)]
        players = [make_player(seed) for seed in seeds]
        episodes += play_tasks(sessions, players, tasks, max_turns=config.max_turns)
    return Score.of(episodes)


def _batches(sessions: Sessions, config: TrainConfig) -> Iterator[list[dict[str, Any]]]:
    tasks = evaluation_tasks(config, sessions)
    for start in range(0, len(tasks), len(sessions)):
        yield tasks[start : start + len(sessions)]
