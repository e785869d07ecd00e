"""What a server tells those who run it: ``/metrics`` for Prometheus, ``/sessions`` for a look at what goes on.

With several workers, whichever one is asked asks the others, and answers for all of them.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from openenv.core.env_server.exposition import Family, Sample, exposition, figures
from openenv.core.env_server.session import Session
from openenv.core.env_server.sessions import Sessions
from openenv.core.env_server.types import ServerMode

_MOST_ROWS = 1000

Report = dict[str, Any]
"""What one worker answers to a question of another one, as JSON can carry it."""

AskOthers = Callable[[Report], Awaitable[Mapping[str, Report | None]]]
"""Puts a question to workers: their answers by their numbers, ``None`` for one that gave none in time."""


class SessionRow(BaseModel):
    """One session, as its server's operator sees it."""

    session: str = Field(description="what it is called, in the log too; not the id that its client knows")
    worker: str = Field(description="number of the worker that holds it")
    transport: str = Field(description="v1, legacy, http, mcp or ors")
    phase: str = Field(description="where its episode stands: new, playing or done")
    age_s: float = Field(description="seconds since it was opened")
    idle_s: float = Field(description="seconds since the last request")
    episodes: int = Field(description="resets so far")
    steps: int = Field(description="steps of all its episodes")
    episode_steps: int = Field(description="steps of this episode")
    reward: float | None = Field(description="rewards of this episode so far, added up")
    busy: bool = Field(description="whether its environment is at work on a request")
    away: bool = Field(description="whether its client has lost its connection and may come back")
    recoverable: bool | None = Field(
        None, description="whether it could be rebuilt if the process ended now; null where no journal has it"
    )


class SessionTable(BaseModel):
    """The sessions of a server."""

    total: int = Field(description="sessions that there are, which may be more than are listed")
    sessions: list[SessionRow] = Field(description="those used last first")


async def _nobody(_question: Report) -> Mapping[str, Report | None]:
    """Ask nobody: this process is the whole server."""
    return {}


class OperatorRoutes:
    """The routes for those who run a server, answered for all of its processes.

    Args:
        reports: Puts a question to every process that holds sessions.
    """

    def __init__(self, reports: AskOthers) -> None:
        self._reports = reports

    def router(self, mode: ServerMode) -> APIRouter:
        """Build the routes. Production mode does not list sessions."""
        router = APIRouter(tags=["Operations"])
        text: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
        router.add_api_route("/metrics", self.metrics, response_class=Response, responses=text)
        if mode is ServerMode.SIMULATION:
            router.add_api_route("/sessions", self.table, response_model=SessionTable)
        return router

    async def metrics(self, request: Request) -> Response:
        """Give the server's figures in the text format of Prometheus, or in OpenMetrics where that is asked for."""
        reports = await self._reports({"about": "metrics"})
        up = [Sample("openenv_worker_up", {"worker": worker}, report is not None) for worker, report in reports.items()]
        families = [Family("openenv_worker_up", "gauge", "1 for a worker that answered, in time, for its figures.", up)]
        for report in reports.values():
            families += [Family.of(*family) for family in (report or {}).get("metrics", [])]
        content, content_type = exposition(families, request.headers.get("accept", ""))
        return Response(content, headers={"content-type": content_type})

    async def table(self, limit: Annotated[int, Query(ge=1, le=_MOST_ROWS)] = 100) -> SessionTable:
        """List the sessions, those used last first."""
        reports = await self._reports({"about": "sessions", "limit": limit})
        answered = [report for report in reports.values() if report is not None]
        rows = [SessionRow(**row) for report in answered for row in report["sessions"]]
        rows.sort(key=_idle_s)
        return SessionTable(total=sum(report["total"] for report in answered), sessions=rows[:limit])


class Operations(OperatorRoutes):
    """The routes for those who run a server of one process or of several workers.

    Args:
        sessions: The sessions of this process.
        environment: Name of the environment.
    """

    def __init__(self, sessions: Sessions, environment: str) -> None:
        super().__init__(self._of_all)
        self._sessions = sessions
        self._environment = environment
        self._worker = "0"
        self._ask_others: AskOthers = _nobody

    def join_workers(self, worker: int, ask_others: AskOthers = _nobody) -> None:
        """Answer for the other workers too.

        Args:
            worker: Number of this one; or of this server, in a fleet, whose others it does not know.
            ask_others: Puts a question to the other ones, which ``answer`` it there.
        """
        self._worker = str(worker)
        self._ask_others = ask_others

    def answer(self, question: Report) -> Report:
        """Answer a question of another worker, for this one alone."""
        if question["about"] == "metrics":
            return {"metrics": figures(self._sessions, self._environment, self._worker)}
        rows = sorted(map(self._row, self._sessions), key=_idle_s)
        return {"total": len(rows), "sessions": [row.model_dump() for row in rows[: question["limit"]]]}

    async def _of_all(self, question: Report) -> dict[str, Report | None]:
        own = self.answer(question)  # first: to wait for another worker takes up to two seconds
        others = await self._ask_others(question)
        return dict(sorted({**others, self._worker: own}.items()))

    def _row(self, session: Session) -> SessionRow:
        return SessionRow(
            session=session.name,
            worker=self._worker,
            transport=session.transport,
            phase=session.phase.value,
            age_s=round(session.age_s, 3),
            idle_s=0.0 if session.busy else round(time.monotonic() - session.last_activity, 3),
            episodes=session.episodes,
            steps=session.total_steps,
            episode_steps=session.step_count,
            reward=session.reward,
            busy=session.busy,
            away=session.away,
            recoverable=session.recoverable,
        )


def _idle_s(row: SessionRow) -> float:
    return row.idle_s
