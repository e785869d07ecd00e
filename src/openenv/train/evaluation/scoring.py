"""How good is a player? Mean rewards over fresh seeds, the same seeds for every player."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from openenv.records.scores import Score
from openenv.train.agents.players import Player, RandomPlayer, RandomToolPlayer
from openenv.train.agents.policy import Policy
from openenv.train.agents.recording import form_of, play_all
from openenv.train.episodes.episode import Episode
from openenv.train.evaluation.scores import score_of
from openenv.train.rollout.play import Play
from openenv.train.settings.config import TrainConfig
from openenv.train.spec.rollout_recorder import EvaluationRecorder
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
    recorder: EvaluationRecorder | None = None,
) -> Score:
    """Score a language model, as ``openenv eval`` scores the model of a run.

    Args:
        policy: The model and its renderer.
        sessions: The environment.
        config: Says how many episodes, and at which temperature (its ``sampled_temperature``).
        sample_seed: Seed of the episode to keep as the score's sample; ``None`` for the one that went worst.
        greedy: Whether the most likely token is taken instead.
        recorder: Records the episodes; ``None`` for none.

    Returns:
        The score.
    """
    temperature = 0.0 if greedy else config.sampled_temperature
    episodes: list[Episode] = []  # not the plays: these keep each observation
    for tasks in _batches(sessions, config, recorder):
        draws = evaluation_draws(config.seed, range(len(episodes), len(episodes) + len(tasks)))
        played = policy.play(sessions, config, tasks, temperature=temperature, randomness=draws)
        _record(recorder, played, sessions, temperature=temperature)
        episodes += [play.episode for play in played]
    return score_of(episodes, sample_seed)


def evaluate_random_player(
    policy: Policy, sessions: Sessions, config: TrainConfig, recorder: EvaluationRecorder | None = None
) -> Score:
    """Score a player that chooses legal actions at random; arguments as for `evaluate_policy`."""
    # A vocabulary comes in another order each time.
    words = sorted(word for word in policy.tokenizer.get_vocab() if word.isalnum()) if config.is_tiny else ()
    tools = sessions.tools
    if tools is not None:
        return _evaluate(
            lambda seed: RandomToolPlayer(tools, derived_seed(seed, "random player")), sessions, config, recorder
        )
    return _evaluate(
        lambda seed: RandomPlayer(policy.actions, derived_seed(seed, "random player"), words or ("a", "b", "c")),
        sessions,
        config,
        recorder,
    )


def evaluate_scripted_player(
    sessions: Sessions, config: TrainConfig, recorder: EvaluationRecorder | None = None
) -> Score | None:
    """Score the player that the environment's package brings along; ``None`` if it has none."""
    package = sessions.package
    if package is None or package.make_player(0) is None:
        return None
    return _evaluate(
        lambda seed: cast("Player", package.make_player(derived_seed(seed, "scripted player"))),
        sessions,
        config,
        recorder,
    )


def _evaluate(
    make_player: Callable[[int], Player],
    sessions: Sessions,
    config: TrainConfig,
    recorder: EvaluationRecorder | None,
) -> Score:
    episodes: list[Episode] = []
    for tasks in _batches(sessions, config, recorder):
        # A task without a seed has a number of its own.
        seeds = [task.get("seed", len(episodes) + number) for number, task in enumerate(tasks)]
        players = [make_player(seed) for seed in seeds]
        played = play_all(sessions, players, tasks, form_of(sessions), config.max_turns)
        _record(recorder, played, sessions)
        episodes += [play.episode for play in played]
    return score_of(episodes)


def _batches(
    sessions: Sessions, config: TrainConfig, recorder: EvaluationRecorder | None
) -> Iterator[list[dict[str, Any]]]:
    """Yield what resets are passed, for as many episodes as there are sessions, with ids of those that are recorded."""
    tasks = evaluation_tasks(config, sessions)
    for start in range(0, len(tasks), len(sessions)):
        batch = tasks[start : start + len(sessions)]
        yield batch if recorder is None else [recorder.named(task) for task in batch]


def _record(recorder: EvaluationRecorder | None, plays: Sequence[Play], sessions: Sessions, **sampling: float) -> None:
    if recorder is not None:
        recorder.add(plays, sampling, () if sessions.tools is None else sessions.tools.schemas())
