"""Folder of ``openenv eval`` or ``openenv collect``, read while it is written: episodes by task, and estimates."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from statistics import fmean
from threading import Lock
from typing import Any, Literal

from pydantic import BaseModel, FiniteFloat, ValidationError

from openenv.core.documents import DocumentError, parse_json, read_json
from openenv.core.exceptions import ConfigurationError
from openenv.records.answers import AnswerCounts, AnswerRule
from openenv.records.collection import Collection
from openenv.records.evaluation import Evaluation, read_evaluation
from openenv.records.failures import failures_text
from openenv.records.lines import GrowingFile, objects_of
from openenv.records.scores import component_means

Order = Literal["played", "worst", "best", "spread"]
"""Order of tasks: as they were first played, by mean reward, or by the difference of their rewards."""


@dataclass(frozen=True, slots=True)
class PlayedEpisode:
    """Episode of a folder, without its messages.

    Attributes:
        offset: Offset of its line in ``episodes.jsonl``, in bytes.
        index: Its number in the folder.
        reward: Sum of its rewards.
        length: Number of its actions.
        illegal_actions: Number of those that were illegal.
        components: Sums of the scores of the reward's components.
        rare: Numbers of its answers of the rarer kinds, by the names of `Collection`; empty in most episodes.
        cut_by: The limit that ended it; ``None`` if none did.
    """

    offset: int
    index: int
    reward: float
    length: int
    illegal_actions: int
    components: Mapping[str, float]
    rare: Mapping[str, Any]
    cut_by: str | None

    @property
    def answers(self) -> dict[str, Any]:
        """Numbers of its answers, by the names of `Collection`."""
        return {"length": self.length, "illegal_actions": self.illegal_actions, **self.rare}


@dataclass(slots=True)
class PlayedTask:
    """Task with its episodes.

    Attributes:
        number: Its number in the folder, from 0, in the order in which tasks were first played.
        task: Arguments of its resets.
        episodes: Its episodes that count.
        left_out: Number of the others.
    """

    number: int
    task: Mapping[str, Any]
    episodes: list[PlayedEpisode] = field(default_factory=list)
    left_out: int = 0

    @property
    def mean_reward(self) -> float:
        """Mean reward of its episodes; of none, less than that of any."""
        return fmean(episode.reward for episode in self.episodes) if self.episodes else float("-inf")

    @property
    def best(self) -> PlayedEpisode | None:
        """The episode with the highest reward; ``None`` without any."""
        return max(self.episodes, key=_reward_of, default=None)

    @property
    def worst(self) -> PlayedEpisode | None:
        """The last episode with the lowest reward, so another than the best where it can be; ``None`` without any."""
        return min(reversed(self.episodes), key=_reward_of, default=None)

    @property
    def spread(self) -> float:
        """Difference of the highest and the lowest reward."""
        rewards = [episode.reward for episode in self.episodes]
        return max(rewards) - min(rewards) if rewards else 0.0

    @property
    def components(self) -> dict[str, float]:
        """Mean of each component over the episodes in which it was called."""
        return component_means([episode.components for episode in self.episodes])


_RARE = ("cut_answers", "answers_without_call", "illegal_texts")


class _Line(BaseModel):
    """Line of an episode, or of one that was left out, as far as it is shown."""

    index: int
    task: dict[str, Any] = {}
    # None of an episode that failed.
    reward: FiniteFloat | None = None
    length: int = 0
    illegal_actions: int = 0
    reward_components: dict[str, float] = {}
    cut_answers: int = 0
    answers_without_call: int = 0
    illegal_texts: dict[str, int] = {}
    cut_by: str | None = None
    reason: str = ""
    failure: str | None = None

    def episode(self, offset: int, reward: float) -> PlayedEpisode:
        components = {name: value for name, value in self.reward_components.items() if isfinite(value)}
        numbers = (self.index, reward, self.length, self.illegal_actions)
        rare = {name: value for name in _RARE if (value := getattr(self, name))}
        return PlayedEpisode(offset, *numbers, components, rare, self.cut_by)


def is_episode_folder(folder: Path) -> bool:
    """Return whether a path is the folder of ``openenv eval`` or ``openenv collect``."""
    return Collection(folder).episodes.is_file() or "environment" in _settings(folder)


def task_key(task: Mapping[str, Any]) -> str:
    """Return the key of a task; a seed or an index is the same as a number and as text."""
    named = {name: str(value) if name in ("seed", "index") else value for name, value in task.items()}
    return json.dumps(named, sort_keys=True)


class EpisodeFolder:
    """Folder of ``openenv eval`` or ``openenv collect``. Threads may share it.

    Args:
        folder: The folder, see ``Collection``; what is missing or can't be read is left out.

    Attributes:
        traces: The file in which its episodes are on record, where there is one.
    """

    def __init__(self, folder: Path) -> None:
        self._files = Collection(folder)
        self.traces = self._files.traces
        self._lock = Lock()
        self._episodes = GrowingFile(self._files.episodes, self._forget)
        self._forget()

    def summary(self) -> dict[str, Any]:
        """Return its kind, its number of episodes, and the estimates; means without intervals before the end."""
        with self._lock:
            self._read()
            settings = _settings(self._files.path)
            results, problem = read_evaluation(self._files.path)
            is_evaluation = "samples" in settings or results is not None or problem is not None
            episodes = list(self._all())
            rule, answers, warnings = _answers(settings, results, episodes)
            return {
                "name": self._files.path.resolve().name,
                "kind": "evaluation" if is_evaluation else "collection",
                "is_complete": results is not None,
                "environment": settings.get("environment") or (results.environment if results else None),
                "player": (results.player if results else None) or settings.get("model") or settings.get("player"),
                "settings": settings,
                "tasks": len(self._tasks),
                "episodes": len(episodes),
                "left_out": sum(task.left_out for task in self._tasks.values()),
                "first_left_out": self._first_reason,
                "unreadable": self._unreadable,
                "success_reward": results.success_reward if results else None,
                "mean_length": fmean(episode.length for episode in episodes) if episodes else None,
                "illegal_actions": fmean(episode.illegal_actions for episode in episodes) if episodes else None,
                "illegal_rule": None if rule is None else str(rule),
                "answers": asdict(answers),
                "limits": Counter(episode.cut_by for episode in episodes if episode.cut_by is not None),
                "spending": asdict(results.spending) if results and results.spending else None,
                "warnings": warnings,
                "estimates": _estimates(results, episodes),
                "problem": problem,
                **_failures_of(self._failures),
            }

    def tasks(self, order: Order = "played") -> list[PlayedTask]:
        """Return the tasks in an order, those without an episode that counts last."""
        with self._lock:
            self._read()
            tasks = list(self._tasks.values())
        if order == "played":
            return tasks
        played = [task for task in tasks if task.episodes]
        unplayed = [task for task in tasks if not task.episodes]
        if order == "spread":
            return [*sorted(played, key=lambda task: -task.spread), *unplayed]
        return [*sorted(played, key=lambda task: task.mean_reward, reverse=order == "best"), *unplayed]

    def tasks_by_key(self) -> Mapping[str, PlayedTask]:
        """Return the tasks by ``task_key``."""
        with self._lock:
            self._read()
            return dict(self._tasks)

    def task(self, number: int) -> PlayedTask:
        """Return a task by its number.

        Raises:
            ConfigurationError: There is no such task.
        """
        tasks = self.tasks()
        if not 0 <= number < len(tasks):
            raise ConfigurationError(f"Expected the number of a task from 0 to {len(tasks) - 1}, got {number}.")
        return tasks[number]

    def results(self) -> Evaluation | None:
        """Return the results of the evaluation; ``None`` where there are none yet or they can't be read."""
        results, _ = read_evaluation(self._files.path)
        return results

    def messages(self, episode: PlayedEpisode) -> list[Mapping[str, Any]]:
        """Return the messages of an episode; none where its line is gone."""
        for fields in objects_of(self._episodes.lines_at([episode.offset])):  # none if the file was written anew since
            messages = fields.get("messages")
            return [each for each in messages if isinstance(each, dict)] if isinstance(messages, list) else []
        return []

    def _forget(self) -> None:
        self._tasks: dict[str, PlayedTask] = {}
        self._unreadable = 0
        self._left_out = GrowingFile(self._files.left_out, self._forget_left_out)
        self._forget_left_out()

    def _forget_left_out(self) -> None:
        self._first_reason: str | None = None
        self._failures: Counter[str] = Counter()
        for task in self._tasks.values():
            task.left_out = 0

    def _read(self) -> None:
        for offset, content in self._episodes.new_lines():
            line = _line_of(content)
            if line is None or line.reward is None:
                self._unreadable += 1
            else:
                self._task_of(line).episodes.append(line.episode(offset, line.reward))
        for _, content in self._left_out.new_lines():
            line = _line_of(content)
            if line is not None:
                self._first_reason = self._first_reason or line.reason
                self._task_of(line).left_out += 1
                if line.failure is not None:
                    self._failures[line.failure] += 1

    def _task_of(self, line: _Line) -> PlayedTask:
        return self._tasks.setdefault(task_key(line.task), PlayedTask(len(self._tasks), line.task))

    def _all(self) -> Iterator[PlayedEpisode]:
        return (episode for task in self._tasks.values() for episode in task.episodes)


def _failures_of(counts: Counter[str]) -> dict[str, Any]:
    """Return the failures by kind and in words; nothing where there are none."""
    failures = dict(counts.most_common())
    return {"failures": failures, "failures_text": failures_text(failures)} if failures else {}


def _reward_of(episode: PlayedEpisode) -> float:
    return episode.reward


def _settings(folder: Path) -> dict[str, Any]:
    try:
        settings = read_json(Collection(folder).settings)
    except ConfigurationError:
        return {}
    return settings if isinstance(settings, dict) else {}


def _line_of(content: bytes) -> _Line | None:
    """Read a line; ``None`` for a line that is none of an episode."""
    try:
        return _Line.model_validate_json(content)
    except ValidationError:
        pass
    try:  # half of a surrogate pair, which a model may write, is no JSON to the quick reader
        written = json.dumps(parse_json(content), ensure_ascii=False).encode("utf-8", "replace")
        return _Line.model_validate_json(written)
    except (DocumentError, ValidationError):
        return None


def _answers(
    settings: Mapping[str, Any], results: Evaluation | None, episodes: list[PlayedEpisode]
) -> tuple[AnswerRule | None, AnswerCounts, list[str]]:
    """Return the rule for illegal answers, ``None`` where an earlier version has noted none; numbers; warnings."""
    if results is not None and results.answers is not None:
        return results.rule, results.answers, list(results.warnings.values())
    answers = AnswerCounts.of_lines(episode.answers for episode in episodes)
    rule = AnswerRule.of(settings) if "illegal_answers" in settings else None
    return rule, answers, [text for _, text in answers.warnings(rule)]


def _estimates(results: Evaluation | None, episodes: list[PlayedEpisode]) -> list[dict[str, Any]]:
    """Return the rows of estimates: rewards, their components, and chances."""
    if results is not None:
        return results.rows()
    if not episodes:
        return []
    reward = {"name": "reward", "kind": "reward", "value": fmean(episode.reward for episode in episodes)}
    means = component_means([episode.components for episode in episodes])
    return [reward, *({"name": name, "kind": "component", "value": mean} for name, mean in means.items())]
