"""Table of the sessions of all workers, by pages: as many rows as a person sees, whatever there is.

A page takes two queries to the workers. The first one ranks, and returns no more than a key and a name of each session
up to the page's end; the second one fetches the rows of the page. In a fleet, its servers are the workers.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from openenv.core.env_server.operations.routes import Operations, QueryWorkers, Report, SessionRow
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session

_RANKING, _ROWS = "live ranking", "live rows"
_MOST_ROWS = 200

Order: TypeAlias = Literal["newest", "active", "steps", "reward", "idle"]
"""Orders of the table: opened last, used last, most steps, highest reward, idle for longest."""

Shown: TypeAlias = Literal["all", "new", "playing", "done", "busy", "away"]
"""Sessions of the table: all of them, those in a phase of their episode, at work, or whose client is away."""

# The smallest key comes first. Times are those of the wall clock, which machines share: the second argument is by how
# much it is ahead of the monotonic one.
_KEYS: Mapping[str, Callable[[Session, float], float]] = {
    "newest": lambda session, _: -session.created_at,
    "active": lambda session, ahead_s: -(session.last_activity + ahead_s),
    "steps": lambda session, _: -session.episode.total_steps,
    "reward": lambda session, _: -session.episode.reward,
    "idle": lambda session, ahead_s: session.last_activity + ahead_s,
}


class TableQuery(BaseModel):
    """Query of a page of the table.

    Attributes:
        order: Order of the sessions.
        shown: Which sessions are part of the table.
        text: Text in the name, the task, the transport or the address of the client.
        offset: Number of sessions before the page.
        limit: Maximum number of rows of the page.
    """

    model_config = ConfigDict(extra="forbid")

    order: Order = "newest"
    shown: Shown = "all"
    text: str = Field(default="", max_length=200)
    offset: int = Field(default=0, ge=0)
    limit: int = Field(default=50, ge=1, le=_MOST_ROWS)


class TablePage(BaseModel):
    """Page of the table, with figures of the whole server.

    Attributes:
        total: Open sessions.
        matching: Those of them that are part of the table.
        offset: Number of sessions before the page.
        sessions: The rows.
        capacity: Sessions that may be open at once.
        waiting: Requests in the queue for a slot.
        steps: Steps since the start of each process.
        errors: Requests answered with an error since then, by code.
        workers: Number of processes.
        answered: Numbers of the workers that the figures are of.
        silent: Numbers of the workers that did not answer in time, whose sessions are missing.
    """

    total: int
    matching: int
    offset: int
    sessions: list[SessionRow]
    capacity: int
    waiting: int
    steps: int
    errors: dict[str, int]
    workers: int
    answered: list[str]
    silent: list[str]


class LiveTable:
    """Table of the sessions of all workers.

    Args:
        reports: Sends a query to every process that holds sessions, where ``LiveSessions`` answers it.
    """

    def __init__(self, reports: QueryWorkers) -> None:
        self._reports = reports

    async def page(self, query: TableQuery, capacity: int) -> TablePage:
        """Return a page.

        Args:
            query: The query.
            capacity: Sessions that may be open at once.
        """
        end = query.offset + query.limit
        ranking = {"about": _RANKING, "order": query.order, "shown": query.shown, "text": query.text, "end": end}
        reports = await self._reports(ranking)
        answered = [report for report in reports.values() if report is not None]
        ranked = sorted((key, name) for report in answered for key, name in report["ranked"])
        errors: dict[str, int] = {}
        for report in answered:
            for code, count in report["errors"].items():
                errors[code] = errors.get(code, 0) + count
        sums = {name: sum(report[name] for report in answered) for name in ("total", "matching", "waiting", "steps")}
        return TablePage(
            **sums,
            offset=query.offset,
            sessions=await self._rows_of([name for _, name in ranked[query.offset : end]]),
            capacity=capacity,
            errors=errors,
            workers=len(reports),
            answered=sorted(worker for worker, report in reports.items() if report is not None),
            silent=[worker for worker, report in reports.items() if report is None],
        )

    async def worker_of(self, name: str) -> str | None:
        """Return the number of the worker that has a session; ``None`` where no worker has it, or says so in time.

        Args:
            name: Public name of the session.
        """
        reports = await self._reports({"about": _ROWS, "names": [name]})
        return next((worker for worker, report in reports.items() if report is not None and report["rows"]), None)

    async def _rows_of(self, names: list[str]) -> list[SessionRow]:
        """Return rows in the order of their names, without those of sessions that have ended meanwhile."""
        if not names:
            return []
        reports = await self._reports({"about": _ROWS, "names": names})
        found = {row["session"]: row for report in reports.values() if report is not None for row in report["rows"]}
        return [SessionRow(**found[name]) for name in names if name in found]


class LiveSessions:
    """What the sessions of this process contribute to the table.

    Args:
        sessions: The sessions of this process.
        operations: Passes the queries of all workers on.
    """

    def __init__(self, sessions: SessionManager, operations: Operations) -> None:
        self._sessions = sessions
        self._operations = operations
        operations.add_answer(_RANKING, self._ranking)
        operations.add_answer(_ROWS, self._rows)

    def _ranking(self, query: Report) -> Report:
        metrics, key = self._sessions.metrics, _KEYS[query["order"]]
        shown, text = query["shown"], query["text"].casefold()
        everything = list(self._sessions)
        ahead_s = time.time() - time.monotonic()
        chosen = [session for session in everything if _is_shown(session, shown) and _has_text(session, text)]
        chosen.sort(key=lambda session: (key(session, ahead_s), session.id))
        return {
            "total": len(everything),
            "matching": len(chosen),
            "ranked": [(key(session, ahead_s), session.name) for session in chosen[: query["end"]]],
            "waiting": metrics.waiting,
            "steps": metrics.steps,
            "errors": dict(metrics.errors),
        }

    def _rows(self, query: Report) -> Report:
        names = set(query["names"])
        return {
            "rows": [self._operations.row(session).model_dump() for session in self._sessions if session.name in names]
        }


def _is_shown(session: Session, shown: str) -> bool:
    conditions: dict[str, Any] = {"all": True, "busy": session.busy, "away": session.away}
    return bool(conditions[shown]) if shown in conditions else session.episode.phase.value == shown


def _has_text(session: Session, text: str) -> bool:
    if not text:
        return True
    return text in f"{session.name} {session.episode.task} {session.transport} {session.client}".casefold()
