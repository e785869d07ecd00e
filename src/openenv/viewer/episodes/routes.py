"""Routes below ``/web/results``: estimates of an evaluation or a collection, by component and by task."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.routing import BaseRoute

from openenv.core.rubrics.bounds import reaches
from openenv.records.episodes import EpisodeFolder, Order, PlayedEpisode, PlayedTask, task_key
from openenv.records.evaluation import Estimate, Evaluation
from openenv.traces.episodes import Count
from openenv.traces.reading import TraceFile
from openenv.viewer.answers import folder_routes
from openenv.viewer.episode_notes import usable_traces, with_messages
from openenv.viewer.episodes.traces import trace_of

BELOW = "/web/results/"
# Rewards of a task that are shown.
_MAX_REWARDS = 200


class _NoQuery(BaseModel):
    """Query without parameters."""

    model_config = ConfigDict(extra="forbid")


class _TasksQuery(BaseModel):
    """Query of a range of the tasks in an order."""

    model_config = ConfigDict(extra="forbid")

    order: Order = "worst"
    start: Count = 0
    limit: int = Field(default=50, ge=1, le=500)


class _ExtremesQuery(BaseModel):
    """Query of the best and the worst episode: of a task, or of all."""

    model_config = ConfigDict(extra="forbid")

    task: Count | None = None


def episode_routes(folder: Path) -> list[BaseRoute]:
    """Return the routes that show the folder of an evaluation or of collected episodes."""
    answers = {"summary": _summary, "tasks": _tasks, "extremes": _extremes}
    return folder_routes(BELOW, EpisodeFolder(folder), answers)


def _summary(folder: EpisodeFolder, query: Mapping[str, str]) -> Any:
    _NoQuery.model_validate(query)
    return folder.summary()


def _tasks(folder: EpisodeFolder, query: Mapping[str, str]) -> Any:
    chosen = _TasksQuery.model_validate(query)
    tasks = folder.tasks(chosen.order)
    results = folder.results()
    estimates = _estimates_of(results)
    success = None if results is None else results.success_reward
    with ExitStack() as opened:
        traces = usable_traces(folder.traces, opened)
        shown = tasks[chosen.start : chosen.start + chosen.limit]
        rows = [_row(task, estimates.get(task_key(task.task)), success, traces) for task in shown]
        return {"tasks": len(tasks), "rows": rows}


def _estimates_of(results: Evaluation | None) -> Mapping[str, Estimate]:
    """Return the mean reward of each task with its interval, by ``task_key``, as far as they were estimated."""
    if results is None:
        return {}
    return {task_key(each.task): each.mean_reward for each in results.tasks if each.mean_reward is not None}


def _extremes(folder: EpisodeFolder, query: Mapping[str, str]) -> Any:
    number = _ExtremesQuery.model_validate(query).task
    tasks = folder.tasks() if number is None else [folder.task(number)]
    played = [task for task in tasks if task.episodes]
    best = max(played, key=lambda task: _reward(task.best), default=None)
    worst = min(reversed(played), key=lambda task: _reward(task.worst), default=None)
    with ExitStack() as opened:
        traces = usable_traces(folder.traces, opened)
        return {
            "best": best and best.best and _with_messages(folder, best, best.best, traces),
            "worst": worst and worst.worst and _with_messages(folder, worst, worst.worst, traces),
        }


def _row(
    task: PlayedTask, estimate: Estimate | None, success: float | None, traces: TraceFile | None
) -> dict[str, Any]:
    mean = task.mean_reward if task.episodes else None
    return {
        "number": task.number,
        "task": task.task,
        "mean_reward": mean,
        # An estimate of fewer episodes than there are now is none of these.
        "low": estimate.low if estimate is not None and estimate.value == mean else None,
        "high": estimate.high if estimate is not None and estimate.value == mean else None,
        "components": task.components,
        "left_out": task.left_out,
        "rewards": [episode.reward for episode in task.episodes[:_MAX_REWARDS]],
        "episodes": len(task.episodes),
        "successes": None if success is None else sum(reaches(episode.reward, success) for episode in task.episodes),
        "best": task.best and _note(task, task.best, traces),
        "worst": task.worst and _note(task, task.worst, traces),
    }


def _with_messages(
    folder: EpisodeFolder, task: PlayedTask, episode: PlayedEpisode, traces: TraceFile | None
) -> dict[str, Any]:
    return with_messages(_note(task, episode, traces), folder.messages(episode))


def _note(task: PlayedTask, episode: PlayedEpisode, traces: TraceFile | None) -> dict[str, Any]:
    note = {
        "task": task.task,
        "index": episode.index,
        "reward": episode.reward,
        "reward_components": episode.components,
        "length": episode.length,
        "illegal_actions": episode.illegal_actions,
    }
    return {**note, "trace": None if traces is None else trace_of(traces, task, episode)}


def _reward(episode: PlayedEpisode | None) -> float:
    return 0.0 if episode is None else episode.reward
