"""Routes below ``/web/run``: how a training is going, and the best and the worst episodes of its steps."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from openenv.core.exceptions import ConfigurationError
from openenv.traces.episodes import Filter
from openenv.traces.reading import TraceFile
from openenv.viewer.routes import json_response
from openenv.viewer.run_folder import TrainingRun

BELOW = "/web/run/"
# Messages of a rollout that are shown, and characters of each.
_MOST_MESSAGES = 60
_MOST_CHARACTERS = 1000


class _ProgressQuery(BaseModel):
    """Query of the metrics after an offset in bytes."""

    model_config = ConfigDict(extra="forbid")

    offset: int = Field(default=0, ge=0)
    mark: str = ""


class _RolloutsQuery(BaseModel):
    """Query of the episodes of a step; of the last one by default."""

    model_config = ConfigDict(extra="forbid")

    step: int | None = Field(default=None, ge=0)


def run_routes(folder: str | Path, traces: str | Path | None = None) -> list[BaseRoute]:
    """Return the routes that show the folder of a training run.

    Args:
        folder: The folder.
        traces: The file in which its episodes are on record; ``None`` for none.
    """
    run = TrainingRun(Path(folder))
    file = None if traces is None else Path(traces)
    answers = {"progress": _progress, "rollouts": partial(_rollouts, file)}
    return [
        Route(BELOW + name, partial(_answered, run, answer), include_in_schema=False)
        for name, answer in answers.items()
    ]


async def _answered(run: TrainingRun, answer: Any, request: Request) -> Response:
    try:
        return json_response(await run_in_threadpool(answer, run, dict(request.query_params)))
    except ValidationError as error:
        return json_response({"detail": str(error.errors(include_url=False, include_context=False))}, 422)
    except (ConfigurationError, OSError) as error:
        return json_response({"detail": str(error)}, 404)


def _progress(run: TrainingRun, query: Mapping[str, str]) -> Any:
    state = run.state  # before the metrics, so that none comes after the end
    asked = _ProgressQuery.model_validate(query)
    return {
        "name": run.folder.resolve().name,
        "state": state,
        "settings": run.settings(),
        "starts": run.starts(),
        "scores": run.scores(),
        **run.metrics(asked.offset, asked.mark)._asdict(),
    }


def _rollouts(file: Path | None, run: TrainingRun, query: Mapping[str, str]) -> Any:
    step, lines = run.rollouts(_RolloutsQuery.model_validate(query).step)
    groups = [group for line in lines for group in _groups_of(line)]
    found = {"step": step, "groups": groups, "best": None, "worst": None}
    if not groups:
        return found
    best = max((group["best"] for group in groups), key=_reward_of)
    worst = min((group["worst"] for group in groups), key=lambda note: _reward_of(note, -1))
    if file is None or not file.is_file():
        return {**found, "best": best, "worst": worst}
    with TraceFile(file) as traces:
        for group in groups:
            group["best"], group["worst"] = (_with_trace(traces, group[name]) for name in ("best", "worst"))
        return {**found, "best": _with_messages(traces, best), "worst": _with_messages(traces, worst)}


def _groups_of(line: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the episodes of a line by their groups, with the best and the worst of each."""
    groups: dict[int, list[dict[str, Any]]] = {}
    for episode in line["episodes"]:
        groups.setdefault(episode["group"], []).append({**episode, "environment": line["environment"]})
    return [
        {
            "environment": line["environment"],
            "task": episodes[0]["task"],
            "rewards": [episode["reward"] for episode in episodes],
            "mean_reward": fmean(episode["reward"] for episode in episodes),
            "best": max(episodes, key=_reward_of),
            "worst": min(episodes, key=lambda note: _reward_of(note, -1)),
        }
        for episodes in groups.values()
    ]


def _reward_of(note: Mapping[str, Any], recorded: int = 1) -> tuple[float, int]:
    """Return what the best or the worst is chosen by: the reward, then whether the episode is on record."""
    return note["reward"], recorded if "episode_id" in note else 0


def _with_trace(traces: TraceFile, note: Mapping[str, Any]) -> dict[str, Any]:
    """Return a note of an episode with the id of its trace; ``None`` where it is not on record, or not yet."""
    name = note.get("episode_id")
    found = () if name is None else traces.episodes(Filter(episode_id=name), 1)
    return {**note, "trace": next((episode.id for episode in found), None)}


def _with_messages(traces: TraceFile, note: Mapping[str, Any]) -> dict[str, Any]:
    """Return a note of an episode with the id of its trace and the first messages of its conversation."""
    known = _with_trace(traces, note)
    conversations = [] if known["trace"] is None else traces.conversations(known["trace"])
    messages = conversations[-1].messages if conversations else ()
    return {**known, "messages": _shown(messages[:_MOST_MESSAGES]), "more": max(0, len(messages) - _MOST_MESSAGES)}


def _shown(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    return [{"role": message["role"], "text": _text_of(message)[:_MOST_CHARACTERS]} for message in messages]


def _text_of(message: Mapping[str, Any]) -> str:
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    texts = [str(message.get("content") or ""), *(f"{call['name']}({_arguments(call)})" for call in calls)]
    return "\n".join(filter(None, texts))


def _arguments(call: Mapping[str, Any]) -> str:
    given = call.get("arguments")
    return ", ".join(f"{name}={value!r}" for name, value in given.items()) if isinstance(given, Mapping) else str(given)
