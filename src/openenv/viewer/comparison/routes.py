"""Routes below ``/web/compare``: scores beside each other, the tasks with the largest differences, and two episodes."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from openenv.core.exceptions import ConfigurationError
from openenv.traces.episodes import Count
from openenv.traces.reading import TraceFile
from openenv.viewer.answers import answered
from openenv.viewer.comparison.sources import ComparedSource, TaskEpisodes, compared
from openenv.viewer.routes import first_difference
from openenv.viewer.source import Source

BELOW = "/web/compare/"


class _TasksQuery(BaseModel):
    """Query of a range of the tasks, those with the largest differences first."""

    model_config = ConfigDict(extra="forbid")

    start: Count = 0
    limit: int = Field(default=50, ge=1, le=500)


def comparison_routes(sources: Sequence[Source]) -> list[BaseRoute]:
    """Return the routes that compare sources; episodes have the number of their source, from 1, before their id."""
    beside = [compared(source) for source in sources]
    answers: dict[str, Callable[[Request], Any]] = {
        "overview": partial(_overview, sources, beside),
        "tasks": partial(_tasks, beside),
        "difference/{first}/{second}": partial(_difference, sources),
    }
    return [Route(BELOW + path, partial(answered, answer), include_in_schema=False) for path, answer in answers.items()]


def _overview(sources: Sequence[Source], beside: Sequence[ComparedSource], request: Request) -> Any:
    """Return each source with its view and summary; of a source that can't be read, the reason."""
    return [
        {"name": source.name, "view": source.view, **_about(each)} for source, each in zip(sources, beside, strict=True)
    ]


def _about(source: ComparedSource) -> dict[str, Any]:
    try:
        return {**source.about(), "problem": None}
    except (ConfigurationError, OSError) as error:
        return {"environment": None, "player": None, "state": "", "scores": [], "problem": str(error)}


def _tasks(beside: Sequence[ComparedSource], request: Request) -> Any:
    """Return the tasks that two sources or more have played, those with the largest difference first."""
    query = _TasksQuery.model_validate(dict(request.query_params))
    played = [_tasks_of(source) for source in beside]
    keys = dict.fromkeys(chain.from_iterable(played))
    common = [key for key in keys if sum(key in tasks for tasks in played) > 1]
    rows = sorted((_row(key, played) for key in common), key=lambda row: -row["difference"])
    shown = rows[query.start : query.start + query.limit]
    for row in shown:
        row["ids"] = _ids(row.pop("key"), row["cells"], beside)
    return {"common": len(common), "tasks": [len(tasks) for tasks in played], "rows": shown}


def _tasks_of(source: ComparedSource) -> Mapping[str, TaskEpisodes]:
    """Return the tasks of a source; none of a source that can't be read, whose reason is in the overview."""
    try:
        return source.tasks()
    except (ConfigurationError, OSError):
        return {}


def _row(key: str, played: Sequence[Mapping[str, TaskEpisodes]]) -> dict[str, Any]:
    found = [tasks.get(key) for tasks in played]
    known = [each for each in found if each is not None]
    means = [each.mean_reward for each in known]
    return {
        "key": key,
        "task": known[0].task,
        "difference": max(means) - min(means),
        "cells": [each and {"mean_reward": each.mean_reward, "episodes": each.episodes} for each in found],
    }


def _ids(key: str, cells: Sequence[dict[str, Any] | None], beside: Sequence[ComparedSource]) -> list[str]:
    """Return the episodes that show the difference: the best where the mean is highest, elsewhere the worst."""
    highest = max(cell["mean_reward"] for cell in cells if cell is not None)
    ids = []
    for number, (cell, source) in enumerate(zip(cells, beside, strict=True), 1):
        name = None if cell is None else source.trace_of(key, best=cell["mean_reward"] == highest)
        ids += [] if name is None else [f"{number}:{name}"]
    return ids


def _difference(sources: Sequence[Source], request: Request) -> Any:
    """Return the first entry in which two episodes differ; ``null`` where none does."""
    with ExitStack() as opened:
        names = (request.path_params["first"], request.path_params["second"])
        return first_difference(*(_entries(sources, name, opened) for name in names))


def _entries(sources: Sequence[Source], name: str, opened: ExitStack) -> Any:
    number, _, episode = name.partition(":")
    known = [str(count) for count, source in enumerate(sources, 1) if source.traces is not None]
    if number not in known:
        raise ConfigurationError(
            f"Expected the number of what is compared ({', '.join(known)}), a colon and the id of an episode, as in "
            f"1:1-17; got {name!r}."
        )
    traces = sources[int(number) - 1].traces
    assert traces is not None
    return opened.enter_context(TraceFile(traces)).entries(episode)
