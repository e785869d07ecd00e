"""Routes below ``/web/traces/``: episodes by pages and as a grid, entries by ranges, differences, files to download.

Each request opens the file anew, in a thread: servers write it meanwhile, and a request reads a page of it.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from openenv.auto.names import environment_key
from openenv.core.env_server.traces.store import database_at
from openenv.core.env_server.web.views import read_body
from openenv.core.exceptions import ConfigurationError
from openenv.core.wire.results import component_totals
from openenv.traces.comparing import differences
from openenv.traces.conversation import parts_of
from openenv.traces.episodes import (
    FILTER,
    MAX_LABEL,
    MAX_NOTE,
    STEP,
    UNREADABLE,
    Conversation,
    Count,
    Entry,
    Episode,
    EpisodeRecord,
    Filter,
    Order,
)
from openenv.traces.formats.atif import trajectory_of
from openenv.traces.formats.messages import row_of
from openenv.traces.reading import TraceFile
from openenv.viewer.answers import HEADERS, answered, invalid_query, json_of, json_response, not_found
from openenv.viewer.grid import grid_of

BELOW = "/web/traces/"
_MAX_ENTRIES = 500
# Of the body that gives a label and a note, whose characters have up to four bytes, or twelve as JSON.
_MAX_LABEL_BYTES = 128 * 1024
_EXPORTS: dict[str, Callable[[EpisodeRecord], Any]] = {"messages": row_of, "atif": trajectory_of, "json": asdict}


def _none_if_empty(text: str | None) -> str | None:
    return text or None


class _FilterQuery(BaseModel):
    """Query of a filter: the fields of `Filter`, beside those of the query itself."""

    model_config = ConfigDict(extra="allow")

    @property
    def filter(self) -> Filter:
        """The filter.

        Raises:
            ValidationError: A field is none of a filter, or has another type.
        """
        return FILTER.validate_python(self.model_extra)


class _EpisodesQuery(_FilterQuery):
    """Query of a page of episodes: a filter, the order, and the episode that it begins after or ends ``before``."""

    after: str | None = None
    before: str | None = None
    order: Order = "newest"
    limit: int = Field(default=100, ge=1, le=500)


class _GridQuery(_FilterQuery):
    """Query of a grid: a filter, and the values of the columns."""

    by: Literal["model", "version", "run", "ending"] = "model"


class _EntriesQuery(BaseModel):
    """Query of a range of entries."""

    model_config = ConfigDict(extra="forbid")

    start: Count = 0
    stop: Count = _MAX_ENTRIES
    brief: bool = False


class _Label(BaseModel):
    """Body of a request that gives an episode a label and a note, over any or over two; empty texts are none."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    label: Annotated[Annotated[str, Field(max_length=MAX_LABEL)] | None, AfterValidator(_none_if_empty)]
    note: Annotated[Annotated[str, Field(max_length=MAX_NOTE)] | None, AfterValidator(_none_if_empty)]
    replaces: tuple[str | None, str | None] | None = None


def trace_routes(
    file: str | Path, environment: str | None = None, target_of: Callable[[str], str] | None = None
) -> list[BaseRoute]:
    """Return the routes that show a file of traces.

    Args:
        file: The file, which need not be there before the first episode is.
        environment: Name of the environment that people play at the same server; ``None`` without one.
        target_of: Returns the argument of ``openenv play`` for an environment, by its name on record; ``None`` where no
            command is shown.
    """
    answers: dict[str, Callable[[TraceFile, Request], Any]] = {
        "environments": _environments,
        "models": _models,
        "token-names": _token_names,
        "labels": _labels,
        "components": _components,
        "count": _count,
        "grid": _grid,
        "episodes": _episodes,
        "episodes/{id}": partial(_episode, partial(_ways_to_play, file, environment, target_of)),
        "episodes/{id}/entries": _entries,
        "episodes/{id}/rewards": _rewards,
        "episodes/{id}/difference/{other}": _difference,
        "episodes/{id}/export/{to}": _export,
    }
    routes = [
        Route(BELOW + name, partial(_answered, file, answer), include_in_schema=False)
        for name, answer in answers.items()
    ]
    label = Route(BELOW + "episodes/{id}/label", partial(_labelled, file), methods=["POST"], include_in_schema=False)
    return [*routes, label, Route(f"{BELOW}export/{{to}}", partial(_exported, file), include_in_schema=False)]


async def _answered(path: str | Path, answer: Callable[[TraceFile, Request], Any], request: Request) -> Response:
    try:
        content = await run_in_threadpool(_read, path, answer, request)
    except ValidationError as error:
        return invalid_query(error)
    except ConfigurationError as error:
        return not_found(error)
    return json_response(content)


async def _labelled(path: str | Path, request: Request) -> Response:
    """Give an episode the label and the note of the request's body; answer with the episode."""
    body = await read_body(request, _MAX_LABEL_BYTES)
    if body is None:
        return json_response({"detail": f"Expected at most {_MAX_LABEL_BYTES} bytes."}, 413)
    try:
        wanted = _Label.model_validate_json(body)
    except ValidationError as error:
        return invalid_query(error)
    return await answered(_label, path, request.path_params["id"], wanted)


def _label(path: str | Path, name: str, wanted: _Label) -> Any:
    with TraceFile(path) as traces:
        return asdict(traces.label(name, wanted.label, wanted.note, replaces=wanted.replaces))


async def _exported(path: str | Path, request: Request) -> Response:
    """Answer with the episodes that a filter lets through, as JSON lines."""
    checked = await _answered(path, _export_query, request)
    if checked.status_code != 200:
        return checked
    where = FILTER.validate_python(dict(request.query_params))
    if request.path_params["to"] == "messages":  # what models learn from
        where = where.for_training()
    lines = _lines(path, _EXPORTS[request.path_params["to"]], where)
    return StreamingResponse(lines, headers=HEADERS, media_type="application/jsonl")


def _export_query(traces: TraceFile, request: Request) -> None:
    _form(request)
    FILTER.validate_python(dict(request.query_params))


def _lines(path: str | Path, form: Callable[[EpisodeRecord], Any], where: Filter) -> Iterator[bytes]:
    """Iterate over episodes as lines of JSON, reading one after another; Starlette does so in threads."""
    with TraceFile(path) as traces:
        for record in traces.records(where):
            yield json_of(form(record)) + b"\n"


def _read(path: str | Path, answer: Callable[[TraceFile, Request], Any], request: Request) -> Any:
    with TraceFile(path) as traces:
        return answer(traces, request)


def _environments(traces: TraceFile, request: Request) -> Any:
    return traces.environments()


def _models(traces: TraceFile, request: Request) -> Any:
    return traces.models()


def _labels(traces: TraceFile, request: Request) -> Any:
    return traces.labels()


def _token_names(traces: TraceFile, request: Request) -> Any:
    return traces.token_names()


def _components(traces: TraceFile, request: Request) -> Any:
    return traces.components()


def _count(traces: TraceFile, request: Request) -> Any:
    return traces.count(FILTER.validate_python(dict(request.query_params)))


def _grid(traces: TraceFile, request: Request) -> Any:
    query = _GridQuery.model_validate(dict(request.query_params))
    return asdict(grid_of(traces, query.filter, query.by))


def _episodes(traces: TraceFile, request: Request) -> Any:
    query = _EpisodesQuery.model_validate(dict(request.query_params))
    found = list(traces.episodes(query.filter, query.limit, after=query.after, before=query.before, order=query.order))
    return _flagged(traces, found)


def _flagged(traces: TraceFile, episodes: Sequence[Episode]) -> list[dict[str, Any]]:
    """Return episodes with the flags of each."""
    flags = traces.flags([episode.id for episode in episodes])
    return [
        {**asdict(episode), "flags": ["error"] if episode.ending == UNREADABLE else flags.get(episode.id, [])}
        for episode in episodes
    ]


def _episode(ways_to_play: Callable[[Episode], dict[str, Any]], traces: TraceFile, request: Request) -> Any:
    """Return an episode with its scores and conversations; each of these has its messages' parts by entries."""
    name = request.path_params["id"]
    episode = traces.episode(name)
    conversations = traces.conversations(name)
    entries = list(traces.entries(name, long_values=False)) if conversations else []
    return {
        "episode": _flagged(traces, [episode])[0],
        **ways_to_play(episode),
        "scores": [asdict(score) for score in traces.scores(name)],
        "conversations": [_divided(conversation, entries) for conversation in conversations],
    }


def _ways_to_play(
    file: str | Path, environment: str | None, target_of: Callable[[str], str] | None, episode: Episode
) -> dict[str, Any]:
    """Return whether an episode is played on at this server, and the command for it, which a step's number ends."""
    plays = environment is not None and environment_key(environment) == environment_key(episode.environment)
    if target_of is None:
        return {"plays": plays, "command": None}
    words = ("openenv", "play", target_of(episode.environment), "--from", database_at(file).name)
    return {"plays": plays, "command": shlex.join((*words, "--episode", episode.id, "--step"))}


def _divided(conversation: Conversation, entries: Sequence[Entry]) -> dict[str, Any]:
    return {**asdict(conversation), "parts": [asdict(part) for part in parts_of(conversation.messages, entries)]}


def _entries(traces: TraceFile, request: Request) -> Any:
    """Return a range of entries; in brief, those parts of each that a list shows."""
    query = _EntriesQuery.model_validate(dict(request.query_params))
    stop = min(query.stop, query.start + _MAX_ENTRIES)
    found = traces.entries(request.path_params["id"], query.start, stop, long_values=not query.brief)
    return [_brief(entry) if query.brief else asdict(entry) for entry in found]


def _brief(entry: Entry) -> dict[str, Any]:
    return {"kind": entry.kind, "request": entry.request, "reward": entry.reward, "failed": entry.failed}


def _rewards(traces: TraceFile, request: Request) -> Any:
    """Return the reward of each entry, and the totals of the rewards' components."""
    entries = list(traces.entries(request.path_params["id"], long_values=False))
    return {
        "rewards": [entry.reward for entry in entries],
        "components": component_totals(entry.components for entry in entries if entry.kind == STEP),
    }


def _difference(traces: TraceFile, request: Request) -> Any:
    """Return the number of the first entry that differs, and in what; ``null`` where none does."""
    return first_difference(*(traces.entries(request.path_params[name]) for name in ("id", "other")))


def first_difference(first: Iterable[Entry], second: Iterable[Entry]) -> dict[str, Any] | None:
    """Return the number of the first entry in which two episodes differ, and its parts; ``None`` where none does."""
    found = next((difference for difference in differences(first, second) if not difference.same), None)
    return None if found is None else {"number": found.number, "parts": found.parts}


def _export(traces: TraceFile, request: Request) -> Any:
    return _form(request)(traces.record(request.path_params["id"]))


def _form(request: Request) -> Callable[[EpisodeRecord], Any]:
    form = _EXPORTS.get(request.path_params["to"])
    if form is None:
        raise ConfigurationError(f"Expected one of the formats {', '.join(_EXPORTS)}.")
    return form
