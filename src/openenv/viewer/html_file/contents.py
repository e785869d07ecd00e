"""Contents of each view of the page, read from its routes in the order of importance."""

import json
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, get_args
from urllib.parse import quote

from openenv.core.exceptions import ConfigurationError
from openenv.records.episodes import Order
from openenv.viewer.answers import json_of
from openenv.viewer.html_file.answers import Answers, key_of

_EPISODES, _STEPS, _TASKS = "episodes", "steps of episodes", "tasks"
_TABLES, _DIFFERENCES = "tables of tasks", "differences of episodes"
# Episodes of a list, whole entries of a request, and rows of a request.
_MAX_LISTED, _PAGE, _ROWS = 100, 20, 500
# Description of the environment by a server without one.
_NAMELESS = {"name": None, "custom": None}
# The order of tasks that the page shows first.
_FIRST_ORDER = "worst"
# Bytes of what stands for an entry that was left out.
_NONE = 5


async def add_view(answers: Answers, view: str, query: Mapping[str, str], prefix: str = "") -> None:
    """Add what a view shows.

    Raises:
        ConfigurationError: Its contents can't be read.
    """
    config = await answers.require(f"{prefix}web/config")
    # A file has no session and no server that shows observations.
    absent = ("play", "tools", "live", "views", *(each for each in ("run", "results") if each != view))
    answers.put(f"{prefix}web/config", {**config, **dict.fromkeys(absent, False), **_NAMELESS})
    if view == "compare":
        await _add_comparison(answers)
    elif view == "run":
        await _add_episodes(answers, prefix, await _add_run(answers, prefix))
    elif view == "results":
        await _add_episodes(answers, prefix, await _add_results(answers, prefix))
    elif "episode" in query:
        named = [query["episode"], *filter(None, query.get("with", "").split(","))]
        for each in named:
            await answers.require(_path(prefix, each))
        await (_add_compared if config["compare"] else _add_beside)(answers, prefix, named)
        if any(_path(prefix, each) not in answers.kept for each in named):
            raise ConfigurationError(f"The file is too small for {', '.join(named)}. Allow more with --max-size-mb.")
    else:
        await _add_list(answers, prefix, query)


async def _add_comparison(answers: Answers) -> None:
    overview = await answers.require("web/compare/overview")
    answers.put("web/compare/overview", overview)
    for number, source in enumerate(overview, 1):
        if source["view"] == "run" and source["problem"] is None:
            await _add_progress(answers, f"{number}/")
    for row in await _add_table(answers, "web/compare/tasks", "common"):
        await _add_compared(answers, "", row["ids"])
    for number, source in enumerate(overview, 1):
        if source["problem"] is None:
            await add_view(answers, source["view"], {}, f"{number}/")


async def _add_progress(answers: Answers, prefix: str) -> list[Any]:
    """Add the metrics of a run, and return their rows."""
    path = f"{prefix}web/run/progress"
    rows: list[Any] = []
    offset, mark = 0, ""
    while True:
        found = await answers.require(path, offset=offset, mark=mark)
        here = key_of(path, offset=offset, mark=mark)
        if not found["rows"] or not answers.keep("parts of a run's metrics", {here: found}):
            answers.put(f"{path}?*", {**found, "rows": []})  # what the page reads from then on
            return rows
        rows += found["rows"]
        offset, mark = found["offset"], found["mark"]


async def _add_run(answers: Answers, prefix: str) -> list[str]:
    """Add a run, the last steps first; return the ids of its episodes on record."""
    steps = dict.fromkeys(row["step"] for row in reversed(await _add_progress(answers, prefix)) if "step" in row)
    ids: dict[str, None] = {}
    for step in steps:
        found = await answers.add("steps of runs", f"{prefix}web/run/rollouts", step=step)
        if found is not None:
            ids |= dict.fromkeys(_traces([found, *found["groups"]]))
    return list(ids)


async def _add_results(answers: Answers, prefix: str) -> list[str]:
    """Add an evaluation, or collected episodes; return the ids of those on record."""
    path = f"{prefix}web/results/"
    answers.put(f"{path}summary", await answers.require(f"{path}summary"))
    shown = [await answers.add(_TASKS, f"{path}extremes")]
    for order in sorted(get_args(Order), key=_FIRST_ORDER.__ne__):
        shown += await _add_table(answers, f"{path}tasks", "tasks", order=order)
    for number in dict.fromkeys(row["number"] for row in shown[1:]):
        shown.append(await answers.add(_TASKS, f"{path}extremes", task=number))
    return list(dict.fromkeys(_traces(filter(None, shown))))


async def _add_table(answers: Answers, path: str, total: str, **query: Any) -> list[Any]:
    """Add a table that is read by pages as one answer, and return its rows."""
    rows: list[Any] = []
    while True:
        found = await answers.require(path, **query, start=len(rows), limit=_ROWS)
        rows += found["rows"]
        if len(rows) >= found[total] or not found["rows"]:
            return rows if answers.keep(_TABLES, {key_of(path, **query): {**found, "rows": rows}}) else []


async def _add_list(answers: Answers, prefix: str, query: Mapping[str, str]) -> None:
    """Add the beginning of a list of episodes, and each of these."""
    path = f"{prefix}web/traces/"
    where = {name: value for name, value in query.items() if name != "order"}
    order = {"order": query["order"]} if "order" in query else {}
    listed = await answers.require(f"{path}episodes", **where, **order, limit=_MAX_LISTED)
    total = await answers.require(f"{path}count", **where)
    answers.left_out[_EPISODES] += max(0, total - len(listed))
    await _add_episodes(answers, prefix, [each["id"] for each in listed])


async def _add_beside(answers: Answers, prefix: str, ids: list[str]) -> None:
    await _add_episodes(answers, prefix, ids)
    for other in ids[1:]:
        await answers.add(_DIFFERENCES, f"{_path(prefix, ids[0])}/difference/{quote(other, '')}")


async def _add_compared(answers: Answers, prefix: str, ids: list[str]) -> None:
    """Add episodes that have the number of their source before their id."""
    for each in ids:
        await _add_episode(answers, _path(prefix, each))
    for other in ids[1:]:
        await answers.add(_DIFFERENCES, f"web/compare/difference/{quote(ids[0], '')}/{quote(other, '')}")


async def _add_episodes(answers: Answers, prefix: str, ids: Iterable[str]) -> None:
    """Add episodes, and the list of those that were added."""
    listed = [found for each in ids if (found := await _add_episode(answers, _path(prefix, each))) is not None]
    path = f"{prefix}web/traces/"
    answers.put(f"{path}episodes?*", listed)
    answers.put(f"{path}count?*", len(listed))


async def _add_episode(answers: Answers, path: str) -> Any:
    """Add an episode, and its entries as far as they fit; return it, or ``None`` where it was left out."""
    entries = f"{path}/entries"
    if path in answers.kept:
        return json.loads(answers.kept[path])["episode"]
    fact = await answers.read(path) if answers.is_open else None
    rewards = await answers.read(f"{path}/rewards") if fact is not None else None
    if fact is None or rewards is None:
        answers.left_out[_EPISODES] += 1
        return None
    rows = await _brief_entries(answers, entries)
    # Without how it is played on, which names files of this machine.
    known = {name: fact[name] for name in ("episode", "scores", "conversations")}
    whole = {path: known, f"{path}/rewards": rewards, key_of(entries, brief=True): rows}
    if not answers.keep(_EPISODES, whole, _NONE * len(rows)):
        return None
    answers.put(entries, await _entries(answers, entries, fact["episode"]["environment"], len(rows)))
    return fact["episode"]


async def _brief_entries(answers: Answers, path: str) -> list[Any]:
    rows: list[Any] = []
    while found := await answers.read(path, brief=True, start=len(rows), stop=len(rows) + _ROWS):
        rows += found
    return rows


async def _entries(answers: Answers, path: str, environment: str, number: int) -> list[Any]:
    """Return entries with the environment's view of each; ``None`` for an entry that does not fit."""
    entries: list[Any] = []
    while len(entries) < number:
        start, stop = len(entries), min(len(entries) + _PAGE, number)
        found = await answers.read(path, start=start, stop=stop) if answers.is_open else None
        for entry in found or [None] * (stop - start):
            view = None if entry is None else await answers.view(environment, entry["answer"])
            whole = entry and {**entry, "answer": {**entry["answer"], "view": view}}
            fits = whole is not None and answers.reserve(len(json_of(whole)))
            answers.left_out[_STEPS] += not fits
            entries.append(whole if fits else None)
    return entries


def _traces(shown: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Iterate over the ids of the best and the worst episodes that are on record."""
    notes = chain.from_iterable((each["best"], each["worst"]) for each in shown)
    return (note["trace"] for note in notes if note and note.get("trace"))


def _path(prefix: str, name: str) -> str:
    """Return the path of an episode; where several files are compared, its id begins with the number of its file."""
    number, colon, own = name.rpartition(":")
    return f"{prefix}{number}{'/' if colon else ''}web/traces/episodes/{quote(own, '')}"
