"""Routes for operators: ``/metrics`` for Prometheus, and ``/sessions``, a table of the open sessions.

With several workers, the worker that a request reaches queries the other workers, and answers for all of them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from openenv.core.env_server.access.tokens import TokenFile
from openenv.core.env_server.http.errors import guarded
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.wire.types import ServerMode

_MOST_ROWS = 1000

Report = dict[str, Any]
"""A query of one worker to another, or its answer, as JSON can carry them."""

QueryWorkers = Callable[[Report], Awaitable[Mapping[str, Report | None]]]
"""Sends a query to workers. Returns their answers by worker number; ``None`` for a worker without one in time."""


class SessionRow(BaseModel):
    """Row of the table: one session."""

    session: str = Field(description="public name of the session, as in the log; not its id")
    worker: str = Field(description="number of the worker that holds it")
    transport: str = Field(description="v1, legacy, http, mcp or ors")
    client: str | None = Field(
        None, description="address of its client, loopback for those of the server's machine, or token:NAME"
    )
    task: str = Field("", description="task and seed that the reset named, empty if it named none")
    phase: str = Field(description="where its episode stands: new, playing or done")
    age_s: float = Field(description="seconds since it was opened")
    idle_s: float = Field(description="seconds since the last request")
    episodes: int = Field(description="resets so far")
    steps: int = Field(description="steps of all its episodes")
    episode_steps: int = Field(description="steps of this episode")
    reward: float | None = Field(description="rewards of this episode so far, added up")
    busy: bool = Field(description="whether its environment is at work on a request")
    away: bool = Field(description="whether its client has lost its connection and may resume it")
    recoverable: bool | None = Field(
        None, description="whether it could be rebuilt if the process ended now; null where no journal has it"
    )


class SessionTable(BaseModel):
    """Table of the sessions of a server."""

    total: int = Field(description="sessions that there are, which may be more than are listed")
    sessions: list[SessionRow] = Field(description="those used last first")


async def _no_others(_query: Report) -> Mapping[str, Report | None]:
    """Return no answers: this process is the whole server."""
    return {}


class OperatorRoutes:
    """Routes for operators, for all processes of a server.

    Args:
        reports: Sends a query to every process that holds sessions.
    """

    def __init__(self, reports: QueryWorkers) -> None:
        self._reports = reports

    def router(self, mode: ServerMode) -> APIRouter:
        """Build the routes. Production mode does not list sessions."""
        router = guarded(tags=["Operations"])
        text: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
        router.add_api_route("/metrics", self.metrics, response_class=Response, responses=text)
        if mode is ServerMode.SIMULATION:
            router.add_api_route("/sessions", self.table, response_model=SessionTable)
        return router

    async def metrics(self, request: Request) -> Response:
        """Return the server's metrics in the text format of Prometheus, or in OpenMetrics if the request accepts it."""
        # Its library takes as long to import as all that answers steps, and few servers are asked. In a thread, so that
        # sessions go on meanwhile.
        await asyncio.to_thread(import_module, "openenv.core.env_server.operations.exposition")
        from openenv.core.env_server.operations.exposition import exposition_of_workers

        reports = await self._reports({"about": "metrics"})
        content, content_type = exposition_of_workers(reports, request.headers.get("accept", ""))
        return Response(content, headers={"content-type": content_type})

    async def table(self, limit: Annotated[int, Query(ge=1, le=_MOST_ROWS)] = 100) -> SessionTable:
        """List the sessions, the last used first."""
        reports = await self._reports({"about": "sessions", "limit": limit})
        answered = [report for report in reports.values() if report is not None]
        rows = [SessionRow(**row) for report in answered for row in report["sessions"]]
        rows.sort(key=_idle_s)
        return SessionTable(total=sum(report["total"] for report in answered), sessions=rows[:limit])


class Operations(OperatorRoutes):
    """Routes for operators, and the answers of this process to the other workers.

    Args:
        sessions: The sessions of this process.
        environment: Name of the environment.
        tokens: The named tokens; ``None`` for none.
    """

    def __init__(self, sessions: SessionManager, environment: str, tokens: TokenFile | None = None) -> None:
        super().__init__(self.of_all)
        self._sessions = sessions
        self._environment = environment
        self._tokens = tokens
        self._worker = "0"
        self._query_others: QueryWorkers = _no_others
        self._answers: dict[str, Callable[[Report], Report]] = {"metrics": self._metrics, "sessions": self._sessions_of}

    def join_workers(self, worker: int, query_others: QueryWorkers = _no_others) -> None:
        """Answer for the other workers too.

        Args:
            worker: Number of this worker; or, in a fleet, of this server, which does not know the other servers.
            query_others: Sends a query to the other workers, where ``answer`` answers it.
        """
        self._worker = str(worker)
        self._query_others = query_others

    def add_answer(self, about: str, answer: Callable[[Report], Report]) -> None:
        """Add a kind of query that the workers answer each other.

        Args:
            about: The query's ``about``.
            answer: Answers it, for this worker alone.
        """
        self._answers[about] = answer

    def answer(self, query: Report) -> Report:
        """Answer the query of another worker, for this worker alone."""
        return self._answers[query["about"]](query)

    async def of_all(self, query: Report) -> dict[str, Report | None]:
        """Return the answers of all workers to a query, by worker number; ``None`` for a worker without one in time."""
        own = self.answer(query)  # first: the other workers take up to two seconds
        others = await self._query_others(query)
        return dict(sorted({**others, self._worker: own}.items()))

    def _metrics(self, _query: Report) -> Report:
        from openenv.core.env_server.operations.exposition import figures, to_report  # see above

        return {"metrics": to_report(figures(self._sessions, self._environment, self._worker, self._tokens))}

    def _sessions_of(self, query: Report) -> Report:
        rows = sorted(map(self.row, self._sessions), key=_idle_s)
        return {"total": len(rows), "sessions": [row.model_dump() for row in rows[: query["limit"]]]}

    def row(self, session: Session) -> SessionRow:
        """Return the row of a session of this process."""
        return SessionRow(
            session=session.name,
            worker=self._worker,
            transport=session.transport,
            client=session.client,
            task=session.episode.task,
            phase=session.episode.phase.value,
            age_s=round(session.age_s, 3),
            idle_s=0.0 if session.busy else round(time.monotonic() - session.last_activity, 3),
            episodes=session.episode.number,
            steps=session.episode.total_steps,
            episode_steps=session.episode.step_count,
            reward=session.episode.reward,
            busy=session.busy,
            away=session.away,
            recoverable=session.recoverable,
        )


def _idle_s(row: SessionRow) -> float:
    return row.idle_s
