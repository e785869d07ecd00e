"""Routes below ``/web/traces/``: episodes by pages, entries by ranges, differences, and files to download.

Each request opens the file anew, in a thread: servers write it meanwhile, and what is read is a page of it.
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from openenv.core.exceptions import ConfigurationError
from openenv.traces.comparing import differences
from openenv.traces.episodes import Filter
from openenv.traces.formats.atif import trajectory_of
from openenv.traces.formats.messages import row_of
from openenv.traces.reading import TraceFile

BELOW = "/web/traces/"
_MOST_ENTRIES = 500
_EXPORTS: dict[str, Callable[..., Any]] = {"messages": row_of, "atif": trajectory_of}


class _EpisodesQuery(BaseModel):
    """Query of a page of episodes: a filter, and where the page begins."""

    model_config = ConfigDict(extra="forbid")

    environment: str | None = None
    ending: str | None = None
    split: str | None = None
    index: str | None = None
    seed: str | None = None
    text: str | None = None
    model: str | None = None
    min_reward: float | None = None
    max_reward: float | None = None
    since: float | None = None
    after: str | None = None
    limit: int = Field(default=100, ge=1, le=500)

    @property
    def filter(self) -> Filter:
        """The filter."""
        return Filter(**self.model_dump(exclude={"after", "limit"}, exclude_none=True))


class _EntriesQuery(BaseModel):
    """Query of a range of entries."""

    model_config = ConfigDict(extra="forbid")

    start: int = Field(default=0, ge=0)
    stop: int = Field(default=_MOST_ENTRIES, ge=0)


def trace_routes(file: str | Path) -> list[BaseRoute]:
    """Return the routes that show a file of traces.

    Args:
        file: The file, which need not be there before the first episode is.
    """
    path = Path(file)
    answers: dict[str, Callable[[TraceFile, Request], Any]] = {
        "episodes": _episodes,
        "episodes/{id}": _episode,
        "episodes/{id}/entries": _entries,
        "episodes/{id}/difference/{other}": _difference,
        "episodes/{id}/export/{to}": _export,
    }
    return [
        Route(BELOW + name, partial(_answered, path, answer), include_in_schema=False)
        for name, answer in answers.items()
    ]


async def _answered(path: Path, answer: Callable[[TraceFile, Request], Any], request: Request) -> Response:
    try:
        content = await run_in_threadpool(_read, path, answer, request)
    except ValidationError as error:
        return _json({"detail": str(error.errors(include_url=False, include_context=False))}, 422)
    except ConfigurationError as error:
        return _json({"detail": str(error)}, 404)
    return _json(content)


def _read(path: Path, answer: Callable[[TraceFile, Request], Any], request: Request) -> Any:
    with TraceFile(path) as traces:
        return answer(traces, request)


def _json(content: Any, status: int = 200) -> Response:
    body = to_json(content, inf_nan_mode="null", fallback=str)
    return Response(body, status, {"Cache-Control": "no-store"}, media_type="application/json")


def _episodes(traces: TraceFile, request: Request) -> Any:
    query = _EpisodesQuery.model_validate(dict(request.query_params))
    page = [asdict(episode) for episode in traces.episodes(query.filter, query.limit, after=query.after)]
    if query.after is not None:
        return {"episodes": page}
    return {
        "episodes": page,
        "count": traces.count(query.filter),
        "environments": [group.key["environment"] for group in traces.groups("environment", limit=50)],
    }


def _episode(traces: TraceFile, request: Request) -> Any:
    name = request.path_params["id"]
    return {
        "episode": asdict(traces.episode(name)),
        "scores": [asdict(score) for score in traces.scores(name)],
        "conversations": [asdict(conversation) for conversation in traces.conversations(name)],
    }


def _entries(traces: TraceFile, request: Request) -> Any:
    query = _EntriesQuery.model_validate(dict(request.query_params))
    stop = min(query.stop, query.start + _MOST_ENTRIES)
    return [asdict(entry) for entry in traces.entries(request.path_params["id"], query.start, stop)]


def _difference(traces: TraceFile, request: Request) -> Any:
    """Return the number of the first entry that differs, and in what; ``null`` where none does."""
    first, second = (traces.entries(request.path_params[name]) for name in ("id", "other"))
    found = next((difference for difference in differences(first, second) if not difference.same), None)
    return None if found is None else {"number": found.number, "parts": found.parts}


def _export(traces: TraceFile, request: Request) -> Any:
    form = _EXPORTS.get(request.path_params["to"])
    if form is None:
        raise ConfigurationError(f"Expected one of the formats {', '.join(_EXPORTS)}.")
    return form(traces.record(request.path_params["id"]))
