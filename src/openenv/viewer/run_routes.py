"""Routes below ``/web/run``: progress of a training, and the best and the worst episodes of its steps."""

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import BaseModel, ConfigDict
from starlette.routing import BaseRoute

from openenv.records.answers import AnswerRule
from openenv.records.run_folder import RunFolder
from openenv.records.scores import Score
from openenv.traces.episodes import Count
from openenv.traces.reading import TraceFile
from openenv.viewer.answers import folder_routes
from openenv.viewer.episode_notes import usable_traces, with_messages, with_trace

BELOW = "/web/run/"


class _ProgressQuery(BaseModel):
    """Query of the metrics after an offset in bytes."""

    model_config = ConfigDict(extra="forbid")

    offset: Count = 0
    mark: str = ""


class _RolloutsQuery(BaseModel):
    """Query of the episodes of a step; of the last one by default."""

    model_config = ConfigDict(extra="forbid")

    step: Count | None = None


def run_routes(folder: str | Path, traces: str | Path | None = None) -> list[BaseRoute]:
    """Return the routes that show the folder of a training run.

    Args:
        folder: The folder.
        traces: The file in which its episodes are on record; ``None`` for none.
    """
    run = RunFolder(Path(folder))
    return folder_routes(BELOW, run, {"progress": _progress, "rollouts": partial(_rollouts, traces)})


def _progress(run: RunFolder, query: Mapping[str, str]) -> Any:
    state = run.state  # before the metrics, so that none comes after the end
    last_read = _ProgressQuery.model_validate(query)
    settings = run.read_settings()
    return {
        "name": run.path.resolve().name,
        "state": state,
        "settings": settings,
        "illegal_rule": AnswerRule.of(settings).in_settings,
        "warnings": run.read_warnings(),
        "starts": [start.as_json() for start in run.read_starts()],
        "scores": {name: _shown(score) for name, score in run.read_scores().items()},
        "times": run.read_times(),
        **run.metrics_after(last_read.offset, last_read.mark)._asdict(),
    }


def _shown(score: Score) -> dict[str, Any]:
    return {name: getattr(score, name) for name in ("mean_reward", "low", "high", "episodes", "costs")}


def _rollouts(file: str | Path | None, run: RunFolder, query: Mapping[str, str]) -> Any:
    step, lines = run.rollouts_at(_RolloutsQuery.model_validate(query).step)
    groups = [group for line in lines for group in _groups_of(line)]
    found = {"step": step, "groups": groups, "best": None, "worst": None}
    if not groups:
        return found
    best = max((group["best"] for group in groups), key=_reward_of)
    # Of the same rewards the last, so that the worst is another episode than the best.
    worst = min((group["worst"] for group in reversed(groups)), key=lambda note: _reward_of(note, -1))
    with ExitStack() as opened:
        traces = usable_traces(file, opened)
        if traces is None:
            return {**found, "best": best, "worst": worst}
        for group in groups:
            group["best"], group["worst"] = (with_trace(traces, group[name]) for name in ("best", "worst"))
        return {**found, "best": _with_messages(traces, best), "worst": _with_messages(traces, worst)}


def _groups_of(line: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the episodes of a line that count by their groups, with the best and the worst of each."""
    groups: dict[int, list[dict[str, Any]]] = {}
    failed: Counter[int] = Counter()
    for episode in line["episodes"]:
        if "error" in episode:  # what was reached before it is no reward
            failed[episode["group"]] += 1
        else:
            groups.setdefault(episode["group"], []).append({**episode, "environment": line.get("environment")})
    return [
        {
            "environment": line.get("environment"),
            "task": episodes[0]["task"],
            "rewards": [episode["reward"] for episode in episodes],
            "failed": failed[group],
            "mean_reward": fmean(episode["reward"] for episode in episodes),
            "best": max(episodes, key=_reward_of),
            "worst": min(reversed(episodes), key=lambda note: _reward_of(note, -1)),
        }
        for group, episodes in groups.items()
    ]


def _reward_of(note: Mapping[str, Any], recorded: int = 1) -> tuple[float, int]:
    """Return the value by which the best or the worst is chosen: the reward, then whether the episode is on record."""
    return note["reward"], recorded if "episode_id" in note else 0


def _with_messages(traces: TraceFile, note: Mapping[str, Any]) -> dict[str, Any]:
    """Return a note of an episode with the id of its trace and the first messages of its conversation."""
    known = with_trace(traces, note)
    conversations = [] if known["trace"] is None else traces.conversations(known["trace"])
    return with_messages(known, conversations[-1].messages if conversations else ())
