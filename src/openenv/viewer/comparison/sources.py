"""Runs, evaluations and files of traces, as far as they are compared: scores, and the episodes of each task."""

from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import fmean
from threading import Lock
from typing import Any, Protocol

from openenv.core.documents import parse_json
from openenv.core.exceptions import ConfigurationError
from openenv.core.wire.results import component_totals
from openenv.records.episodes import EpisodeFolder, task_key
from openenv.records.lines import GrowingFile, objects_of
from openenv.records.run_folder import RunFolder, rollouts_of
from openenv.records.scores import Score
from openenv.traces.episodes import STEP, Filter, Group
from openenv.traces.reading import TraceFile
from openenv.viewer.episode_notes import usable_traces, with_trace
from openenv.viewer.episodes.traces import trace_of
from openenv.viewer.source import Source

# Steps of a run that its rewards are the mean of.
_LAST_STEPS = 10
_COMPONENTS = "episode/reward_components/"
# Episodes of a file of traces whose components are read, and of a task that the best and the worst are found among.
_MAX_READ = 300
_TASK = ("split", "index", "seed")


@dataclass(frozen=True, slots=True)
class TaskEpisodes:
    """Episodes of one task in one source.

    Attributes:
        task: Arguments of their resets.
        mean_reward: Mean of their rewards.
        episodes: Number of episodes.
    """

    task: Mapping[str, Any]
    mean_reward: float
    episodes: int


class ComparedSource(Protocol):
    """Source of episodes beside others."""

    def about(self) -> dict[str, Any]:
        """Return ``environment``, ``player``, ``state`` and ``scores``, the rows of ``episodes.results``."""

    def tasks(self) -> Mapping[str, TaskEpisodes]:
        """Return the tasks by ``task_key``."""

    def trace_of(self, key: str, *, best: bool) -> str | None:
        """Return the id of the trace of a task's best or worst episode; ``None`` where it is not on record."""


def compared(source: Source) -> ComparedSource:
    """Return a source as it is compared."""
    if source.run is not None:
        return ComparedRun(source.run, source.traces)
    if source.episodes is not None:
        return ComparedEpisodes(source.episodes)
    assert source.traces is not None
    return ComparedTraces(source.traces)


class ComparedRun:
    """Training run; of each task, the episodes of the last step that played it."""

    def __init__(self, folder: Path, traces: str | Path | None) -> None:
        self._run = RunFolder(folder)
        self._traces = traces
        self._rollouts = GrowingFile(self._run.rollouts, self._forget)
        self._rows = GrowingFile(self._run.metrics, self._forget_rows)
        self._lock = Lock()
        self._forget()
        self._forget_rows()

    def about(self) -> dict[str, Any]:
        """Return the model, and its scores: the reward and its components over the last steps, then players'."""
        settings = self._run.read_settings()
        with self._lock:
            for _, line in self._rows.new_lines():
                self._last_rows.extend(objects_of([line]))
            rows = list(self._last_rows)
        return {
            "environment": settings.get("environment"),
            "player": settings.get("model"),
            "state": self._run.state,
            "scores": [*_last_scores(rows), *_player_scores(self._run.read_scores())],
        }

    def tasks(self) -> Mapping[str, TaskEpisodes]:
        """Return the tasks that were played."""
        with self._lock:
            self._read()
            return {key: _task_of(notes) for key, notes in self._notes.items()}

    def trace_of(self, key: str, *, best: bool) -> str | None:
        """Return the id of the trace of the best or the worst of the last episodes of a task."""
        notes = [note for note in self._notes.get(key, ()) if "episode_id" in note]
        with ExitStack() as opened:
            traces = usable_traces(self._traces, opened)
            if traces is None or not notes:
                return None
            chosen = max(notes, key=_reward_of) if best else min(notes, key=_reward_of)
            return _text(with_trace(traces, chosen)["trace"])

    def _forget(self) -> None:
        self._notes: dict[str, list[dict[str, Any]]] = {}

    def _forget_rows(self) -> None:
        self._last_rows: deque[dict[str, Any]] = deque(maxlen=_LAST_STEPS)

    def _read(self) -> None:
        for _, content in self._rollouts.new_lines():
            for line in rollouts_of([content]):
                self._add(line)

    def _add(self, line: Mapping[str, Any]) -> None:
        named = {"environment": line["environment"]} if line.get("environment") else {}
        groups: dict[str, list[dict[str, Any]]] = {}
        for note in line.get("episodes", ()):
            if "error" in note:  # what was reached before it is no reward
                continue
            task = {**named, **note["task"]}
            groups.setdefault(task_key(task), []).append({**note, "task": task})
        self._notes |= groups


class ComparedEpisodes:
    """Evaluation, or collected episodes."""

    def __init__(self, folder: Path) -> None:
        self._folder = EpisodeFolder(folder)

    def about(self) -> dict[str, Any]:
        """Return the environment, the player and the estimates."""
        summary = self._folder.summary()
        first, *others = summary["estimates"] or [None]
        # The name of the first says how the tokens were sampled, which differs between what is compared.
        scores = [{**first, "name": "reward"}, *others] if first else []
        state = "complete" if summary["is_complete"] else "collected"
        return {
            "environment": summary["environment"],
            "player": summary["player"],
            "state": "not complete" if summary["kind"] == "evaluation" and not summary["is_complete"] else state,
            "scores": scores,
        }

    def tasks(self) -> Mapping[str, TaskEpisodes]:
        """Return the tasks of which an episode counts."""
        return {
            key: TaskEpisodes(task.task, task.mean_reward, len(task.episodes))
            for key, task in self._folder.tasks_by_key().items()
            if task.episodes
        }

    def trace_of(self, key: str, *, best: bool) -> str | None:
        """Return the id of the trace of a task's best or worst episode."""
        task = self._folder.tasks_by_key().get(key)
        episode = None if task is None else (task.best if best else task.worst)
        with ExitStack() as opened:
            traces = usable_traces(self._folder.traces, opened)
            if task is None or episode is None or traces is None:
                return None
            return trace_of(traces, task, episode)


class ComparedTraces:
    """File of traces."""

    def __init__(self, file: str | Path) -> None:
        self._file = file

    def about(self) -> dict[str, Any]:
        """Return the environments, the mean reward, and the components of the newest episodes."""
        with TraceFile(self._file) as traces:
            names = traces.environments()
            groups = traces.groups("model")
            return {
                "environment": ", ".join(names),
                "player": ", ".join(str(group.key["model"]) for group in groups if group.key["model"] is not None),
                "state": f"{traces.count()} episodes",
                "scores": [*_mean_of(groups), *_components_of(traces)],
            }

    def tasks(self) -> Mapping[str, TaskEpisodes]:
        """Return the tasks that have a name."""
        with TraceFile(self._file) as traces:
            found = {}
            for group in traces.groups(*_TASK):
                task = {name: value for name, value in group.key.items() if value is not None}
                if task and group.mean_reward is not None:
                    found[task_key(task)] = TaskEpisodes(task, group.mean_reward, group.rewarded)
            return found

    def trace_of(self, key: str, *, best: bool) -> str | None:
        """Return the id of a task's best or worst episode."""
        task = parse_json(key)
        with TraceFile(self._file) as traces:
            episodes = [each for each in traces.episodes(Filter(**task), _MAX_READ) if each.counted_reward is not None]
        if not episodes:
            return None
        ranked = sorted(episodes, key=lambda each: each.reward or 0.0)
        return ranked[-1 if best else 0].id


def _task_of(notes: list[dict[str, Any]]) -> TaskEpisodes:
    return TaskEpisodes(notes[0]["task"], fmean(note["reward"] for note in notes), len(notes))


def _reward_of(note: Mapping[str, Any]) -> float:
    return float(note["reward"])


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _last_scores(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    metrics = dict.fromkeys(name for row in rows for name in row if name.startswith(_COMPONENTS))
    means = [("reward", "reward", _mean_over(rows, "episode/reward"))]
    means += [("component", name.removeprefix(_COMPONENTS), _mean_over(rows, name)) for name in metrics]
    return [{"name": name, "kind": kind, "value": mean} for kind, name, mean in means if mean is not None]


def _mean_over(rows: list[dict[str, Any]], metric: str) -> float | None:
    values = [row[metric] for row in rows if isinstance(row.get(metric), float | int) and isfinite(row[metric])]
    return fmean(values) if values else None


def _player_scores(scores: Mapping[str, Score]) -> list[dict[str, Any]]:
    rows = []
    for name, score in scores.items():
        ends = {} if score.low is None else {"low": score.low, "high": score.high}
        rows.append({"name": name, "kind": "player", "value": score.mean_reward, **ends})
    return rows


def _mean_of(groups: list[Group]) -> list[dict[str, Any]]:
    """Return the mean reward of groups of episodes that have one."""
    known = [(group.mean_reward, group.rewarded) for group in groups if group.mean_reward is not None]
    count = sum(episodes for _, episodes in known)
    if not count:
        return []
    return [{"name": "reward", "kind": "reward", "value": sum(mean * number for mean, number in known) / count}]


def _components_of(traces: TraceFile) -> list[dict[str, Any]]:
    """Return the mean of each component over the newest episodes."""
    totals: dict[str, list[float]] = {}
    for episode in traces.episodes(limit=_MAX_READ):
        if episode.error is not None:
            continue
        try:
            entries = list(traces.entries(episode.id, long_values=False))
        except ConfigurationError:  # some of its entries are not on record
            continue
        sums = component_totals(entry.components for entry in entries if entry.kind == STEP)
        for name, value in sums.items():
            totals.setdefault(name, []).append(value)
    return [{"name": name, "kind": "component", "value": fmean(values)} for name, values in totals.items()]
