"""Collecting episodes of a player or a model, as conversations to train on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from openenv.core.exceptions import (
    ConnectionFailedError,
    ConnectionLostError,
    FailureKind,
    ModelAnswerError,
    OpenEnvError,
    ProviderError,
    RequestGivenUpError,
    ServerCapacityError,
    ServerParticipantError,
)
from openenv.core.rubrics.bounds import reaches
from openenv.core.wire.results import ParticipantUsage
from openenv.records.answers import AnswerCounts, AnswerRule
from openenv.records.collection import Collection, left_out_failures, limits_in
from openenv.records.prices import Prices, participants_in_lines
from openenv.train.agents.agent import Agent, play
from openenv.train.agents.opening import open_agent, opened_rule
from openenv.train.dataset.play_progress import PlayProgress
from openenv.train.dataset.play_traces import PlayTraces
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.played_episode import Message, PlayedEpisode, text_of
from openenv.train.episodes.spending import FAILED_PARTICIPANT
from openenv.train.rollout.sessions import Sessions
from openenv.train.settings.play_settings import PlaySettings
from openenv.train.tasks.task_choice import NumberedTask, training_tasks

__all__ = ["CLOSING", "CollectResult", "EpisodeKeeper", "add_episodes", "collect", "line_of"]

CLOSING = "Done."
"""Last message of a model, after the last tool's answer. A model that has never seen an answer without a call would
continue to call tools when a trainer generates once more."""

_FAILED, _MODEL_FAILED = "the environment failed", "the model failed"
_PARTICIPANT_FAILED = "a participant failed"
# Failures of the server, not of an episode: the next one would fare no better.
_OF_THE_SERVER = (ConnectionFailedError, ConnectionLostError, ProviderError, ServerCapacityError)


@dataclass(frozen=True)
class CollectResult:
    """Outcome of collecting episodes.

    Attributes:
        collection: The folder.
        kept: Episodes in it.
        below: Episodes that were left out for their reward.
        failed: Episodes in which the environment failed.
        mean_reward: Mean reward of those that are kept; ``None`` if there are none.
        model_failed: Episodes in which the model's server gave no answer that can be read.
        failures: Numbers of the episodes that failed, by the kind of failure.
        answers: Numbers of their answers, of those that were left out for their reward too.
        rule: What an illegal answer did.
        participants: What the participants of all episodes have used, by name.
        limits: Number of the kept episodes that a limit ended, by its name.
    """

    collection: Collection
    kept: int
    below: int
    failed: int
    mean_reward: float | None
    model_failed: int = 0
    answers: AnswerCounts = field(default_factory=AnswerCounts)
    rule: AnswerRule = field(default_factory=AnswerRule)
    participants: dict[str, ParticipantUsage] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)

    @property
    def participant_failed(self) -> int:
        """Number of episodes in which a participant of the environment failed, such as its user."""
        return self.failures.get(FailureKind.PARTICIPANT, 0)

    @property
    def warnings(self) -> list[str]:
        """Warnings of what the answers spoil."""
        return [text for _, text in self.answers.warnings(self.rule)]


def collect(
    settings: PlaySettings,
    episodes: int,
    output: Path,
    *,
    min_reward: float | None = None,
    episode_id_prefix: str | None = None,
    sessions: int = 16,
    console: Console | None = None,
) -> CollectResult:
    """Play episodes and write their conversations into a folder.

    A folder that was begun with the same settings is continued: what is in it is not played again.

    Args:
        settings: Which environment is played, by whom and how. Without tasks, the episodes' seeds are those of a
            training, which no evaluation has.
        episodes: How many episodes to play in all. Tasks are repeated where there are fewer.
        output: The folder; see `Collection`.
        min_reward: Reward that an episode must have to be kept; ``None`` keeps all.
        episode_id_prefix: Beginning of the episodes' ids, as ``ep`` of ``ep-000003``: their resets name them, and so
            do their lines and the traces. One that was cut off and is played again has the same id. By default ids are
            random, and in the traces alone. The id of a task that has one stays.
        sessions: Episodes that are played at once.
        console: Where progress is shown; by default the terminal.

    Returns:
        The counts, and the folder.

    Raises:
        OpenEnvError: The settings, the folder, the environment or the model are refused; the subclass names the reason.

    Example::

        collect(PlaySettings(environment="wordle", player="scripted"), episodes=500, output=Path("data"))
    """
    settings = settings.with_defaults(to_learn_from=True)
    depends_on = {**settings.decisive(), "min_reward": min_reward}
    if episode_id_prefix is not None:
        depends_on["episode_id_prefix"] = episode_id_prefix
    collection = Collection(output)
    collection.check_free()
    with (
        PlayTraces(collection.traces, settings) as traces,
        open_agent(settings, min(sessions, episodes), traces.env_vars) as (agent, opened),
    ):
        tasks = training_tasks(
            settings.tasks, opened, episodes, seed=settings.seed, reset=settings.reset, shuffled=False
        )
        rule = opened_rule(settings, opened)
        collection = Collection.open(output, {**depends_on, "fallback": rule.fallback})
        named = [(number, _with_id(task, number, episode_id_prefix)) for number, task in enumerate(tasks)]
        has_id = episode_id_prefix is not None
        keeper = EpisodeKeeper(
            collection, settings.name, min_reward, has_id=has_id, has_seconds=settings.prices is not None
        )
        add_episodes(keeper, agent, named, opened, traces, console)
    return _result(collection, rule, settings.price_list)


@dataclass(frozen=True)
class EpisodeKeeper:
    """Keeps episodes in a folder: those with ``min_reward`` or more, or all.

    Attributes:
        collection: The folder.
        environment: Name of the environment.
        min_reward: Reward of an episode that is kept; ``None`` to keep all.
        has_id: Whether the lines have the episodes' ids.
        has_seconds: Whether the lines have the seconds and the CPU time of the episodes, which are others each time.
    """

    collection: Collection
    environment: str
    min_reward: float | None = None
    has_id: bool = False
    has_seconds: bool = False

    def add(self, played: PlayedEpisode) -> None:
        """Keep an episode, or note why it is left out."""
        episode = played.episode
        error = episode.error
        if isinstance(error, _OF_THE_SERVER) and not isinstance(error, RequestGivenUpError):
            # The server is gone, or is full: the episode is left to be played another time.
            raise error
        if error is not None:
            # What was reached before a failure is no reward.
            self._leave_out(played, f"{_failed(error)}: {error}", {"failure": episode.failure})
        elif self.min_reward is not None and not reaches(episode.reward, self.min_reward):
            below = {"reward": episode.reward, **_answers_in(episode)}
            self._leave_out(played, f"reward below {self.min_reward:g}", below)
        else:
            line = line_of(played, self.environment, has_id=self.has_id)
            self.collection.add({**line, **self._spent(played)})

    def _leave_out(self, played: PlayedEpisode, reason: str, why: Mapping[str, Any]) -> None:
        line = {"index": played.index, "task": played.episode.parameters}
        self.collection.leave_out({**line, **why, **self._spent(played)}, reason)

    def _spent(self, played: PlayedEpisode) -> dict[str, Any]:
        """Return tokens and cost of the model's answers, and the seconds, where known; and what participants used."""
        left_out = (FAILED_PARTICIPANT,) if self.has_seconds else ("took_s", "cpu_s", FAILED_PARTICIPANT)
        return {name: value for name, value in played.spent.items() if name not in left_out}


def _failed(error: OpenEnvError) -> str:
    """Return in words who failed."""
    if isinstance(error, ServerParticipantError):
        return _PARTICIPANT_FAILED
    return _MODEL_FAILED if isinstance(error, ModelAnswerError) else _FAILED


def add_episodes(
    keeper: EpisodeKeeper,
    agent: Agent,
    tasks: Sequence[NumberedTask],
    sessions: Sessions,
    traces: PlayTraces,
    console: Console | None,
) -> None:
    """Play the episodes that a folder lacks, and write them into it; refuse a folder with episodes of other tasks."""
    collection = keeper.collection
    collection.check_tasks({number: Episode.of_task(task).parameters for number, task in tasks})
    done = collection.indexes()
    left = [(number, task) for number, task in tasks if number not in done]
    with PlayProgress(console or Console(), len(tasks), len(tasks) - len(left)) as progress:
        for played in play(agent, left, sessions, traces):
            keeper.add(played)
            progress.add(played)


def line_of(played: PlayedEpisode, environment: str, *, has_id: bool = False) -> dict[str, Any]:
    """Return the line of an episode without a failure in a `Collection`, with its id if ``has_id``."""
    episode = played.episode
    line = {
        "index": played.index,
        "environment": environment,
        "task": episode.parameters,
        "messages": _messages_to_learn(played),
        "tools": played.tools,
        "reward": episode.reward,
        "rewards": [turn.reward for turn in episode.turns],
        **_answers_in(episode),
        "done": episode.done,
    }
    if episode.cut_by is not None:
        line["cut_by"] = episode.cut_by
    if has_id:
        line["episode_id"] = episode.episode_id
    if components := episode.reward_components:
        line |= {"reward_components": components, "components": [dict(turn.components) for turn in episode.turns]}
    if episode.step_rewards is not None:
        line["step_rewards"] = episode.step_rewards
    return line


def _answers_in(episode: Episode) -> dict[str, Any]:
    """Return the numbers of an episode's answers, of the rarer kinds where there is one."""
    counts = episode.answer_counts
    return {name: value for name, value in counts.items() if value or name in ("length", "illegal_actions")}


def _messages_to_learn(played: PlayedEpisode) -> list[Message]:
    messages = [{**message, "content": text_of(message["content"])} for message in played.messages]
    if played.tools and played.episode.done and messages[-1]["role"] == "tool":
        return [*messages, {"role": "assistant", "content": CLOSING}]
    # No action follows the observation after the last one.
    return messages[:-1] if len(messages) > 1 and messages[-1]["role"] == "user" else messages


def _with_id(task: Mapping[str, Any], number: int, prefix: str | None) -> Mapping[str, Any]:
    return task if prefix is None else {"episode_id": f"{prefix}-{number:06d}", **task}


def _result(collection: Collection, rule: AnswerRule, prices: Prices | None) -> CollectResult:
    lines, left_out = collection.read(), collection.read_left_out()
    rewards = [line["reward"] for line in lines]
    reasons = [line["reason"] for line in left_out]
    failures = left_out_failures(left_out)
    return CollectResult(
        collection,
        kept=len(rewards),
        below=len(left_out) - sum(failures.values()),
        failed=sum(reason.startswith(_FAILED) for reason in reasons),
        mean_reward=fmean(rewards) if rewards else None,
        model_failed=sum(reason.startswith(_MODEL_FAILED) for reason in reasons),
        answers=AnswerCounts.of_lines([*lines, *(line for line in left_out if "length" in line)]),
        rule=rule,
        participants=participants_in_lines([*lines, *left_out], prices),
        failures=failures,
        limits=limits_in(lines),
    )
