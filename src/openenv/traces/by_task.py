"""Tasks that episodes were played on: those that teach something, and pairs of episodes, of which one is better."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from openenv.core.exceptions import IncompleteTraceError
from openenv.core.rubrics.bounds import reaches
from openenv.traces.episodes import BAD, GOOD, Episode, EpisodeRecord, Filter, Group
from openenv.traces.formats.messages import messages_of
from openenv.traces.reading import TraceFile

__all__ = ["TaskEpisodes", "preference_pairs", "tasks"]

_TASK = ("environment", "split", "index", "seed")
# Meaning of labels; other labels do not order episodes.
_RANKS: dict[str | None, int] = {GOOD: 1, BAD: -1}
# Digits from which on a text is no index or seed that a program counts by.
_MAX_DIGITS = 40


@dataclass(frozen=True, slots=True)
class TaskEpisodes:
    """Task with figures of its episodes.

    Attributes:
        environment: Name of the environment.
        task: Arguments of its resets: ``split``, ``index`` and ``seed``, as far as they were.
        episodes: Number of episodes.
        failed: Number of those in which the environment failed, whose rewards count for nothing.
        mean_reward: Mean of the others' rewards, as for the next two ``None`` without any.
        min_reward: Lowest reward.
        max_reward: Highest reward.
    """

    environment: str
    task: dict[str, str | int]
    episodes: int
    failed: int
    mean_reward: float | None
    min_reward: float | None
    max_reward: float | None

    @property
    def has_signal(self) -> bool:
        """True if rewards differ, which a trainer needs that compares episodes of one task."""
        return not reaches(0.0, self.spread)

    @property
    def spread(self) -> float:
        """Difference of the highest and the lowest reward; 0 without rewards."""
        return 0.0 if self.max_reward is None or self.min_reward is None else self.max_reward - self.min_reward


def tasks(traces: TraceFile, where: Filter | None = None, *, with_signal: bool = False) -> list[TaskEpisodes]:
    """Return the tasks of episodes: those with the same environment, split, index and seed.

    Args:
        traces: The file of traces.
        where: Filter for the episodes; by default all but evaluations (`Episode.is_evaluation`). Those whose reset
            named no task are left out.
        with_signal: Whether to return only tasks whose rewards differ.

    Returns:
        The tasks, the one with the newest episode first.

    Raises:
        ConfigurationError: The file can't be read.

    Example::

        with traces.open("traces.db") as file:
            hard = [task.task for task in traces.tasks(file, with_signal=True) if task.mean_reward < 0.5]
    """
    where = (where or Filter()).for_training()
    found = [_task_of(group) for group in traces.groups(*_TASK, where=where)]
    return [task for task in found if task.task and (task.has_signal or not with_signal)]


def preference_pairs(
    traces: TraceFile, where: Filter | None = None, *, min_spread: float = 0.0
) -> Iterator[dict[str, Any]]:
    """Iterate over pairs of episodes of one task, the best and the worst of each, for TRL's ``DPOTrainer``.

    The best has the label ``good``, or else the highest reward; the worst has ``bad``, or else the lowest. What is
    labelled ``bad`` is never chosen, and what is labelled ``good`` is never rejected.

    Args:
        traces: The file of traces.
        where: Filter for the episodes; by default all but evaluations (`Episode.is_evaluation`).
        min_spread: Difference of the rewards that a pair must exceed, unless one of them has one of these labels.

    Returns:
        An iterator of ``prompt``, the conversation's beginning, which both share; ``chosen`` and ``rejected``, the rest
        of each; ``chosen_reward`` and ``rejected_reward``; and ``tools``. Episodes of a task that begin differently
        make no pair.

    Raises:
        ConfigurationError: The file can't be read.

    Example::

        with traces.open("traces.db") as file:
            pairs = list(traces.preference_pairs(file, min_spread=0.5))
        dataset = Dataset.from_list(pairs, on_mixed_types="use_json")  # calls of tools keep their own arguments
    """
    where = (where or Filter()).for_training()
    labelled = [group.key for group in traces.groups(*_TASK, "label", where=where) if group.key["label"] in _RANKS]
    for group in traces.groups(*_TASK, where=where):
        task = _task_of(group)
        is_labelled = any(key.items() >= group.key.items() for key in labelled)
        if task.task and (is_labelled or not reaches(min_spread, task.spread)):
            pair = _pair_of(_extremes(traces, group, where, min_spread))
            if pair is not None:
                yield pair


def _task_of(group: Group) -> TaskEpisodes:
    named = {name: _number(group.key[name]) for name in _TASK[1:] if group.key[name] is not None}
    rewards = (group.mean_reward, group.min_reward, group.max_reward)
    return TaskEpisodes(str(group.key["environment"]), named, group.episodes, group.failed, *rewards)


def _extremes(traces: TraceFile, group: Group, where: Filter, min_spread: float) -> list[EpisodeRecord]:
    """Return the best and the worst episode of a task; none where they do not differ, or are not all on record."""
    own = {name: value for name, value in group.key.items() if value is not None}
    narrowed = replace(where, **own)
    found = [each for each in traces.episodes(narrowed) if _key_of(each) == group.key]
    # What was reached before a failure is no reward.
    counted = [each for each in found if each.error is None or each.label in _RANKS]
    episodes = [each for each in counted if each.reward is not None or each.label in _RANKS]
    best = max((each for each in episodes if each.label != BAD), key=_rank_of, default=None)
    worst = min((each for each in episodes if each.label != GOOD), key=_rank_of, default=None)
    if best is None or worst is None or not _differ(best, worst, min_spread):
        return []
    try:
        return [traces.record(each.id) for each in (best, worst)]
    except IncompleteTraceError:
        return []


def _rank_of(episode: Episode) -> tuple[int, float]:
    return _RANKS.get(episode.label, 0), episode.reward or 0.0


def _differ(best: Episode, worst: Episode, min_spread: float) -> bool:
    by_label = _rank_of(best)[0] > _rank_of(worst)[0]
    return by_label or not reaches(min_spread, (best.reward or 0.0) - (worst.reward or 0.0))


def _key_of(episode: Episode) -> dict[str, Any]:
    return {name: getattr(episode, name) for name in _TASK}


def _pair_of(extremes: list[EpisodeRecord]) -> dict[str, Any] | None:
    if not extremes:
        return None
    chosen, rejected = (messages_of(record) for record in extremes)
    start = next((position for position, message in enumerate(chosen) if message["role"] == "assistant"), len(chosen))
    if chosen[:start] != rejected[:start]:
        return None
    conversation = extremes[0].conversation
    return {
        "prompt": chosen[:start],
        "chosen": chosen[start:],
        "rejected": rejected[start:],
        "chosen_reward": extremes[0].episode.reward,
        "rejected_reward": extremes[1].episode.reward,
        "tools": [] if conversation is None else list(conversation.tools),
    }


def _number(text: str) -> str | int:
    """Return a number that is stored as text as such."""
    return int(text) if text.removeprefix("-").isdecimal() and text.isascii() and len(text) < _MAX_DIGITS else text
