"""Routes of ORS, with and without the environment's name as a prefix of the path.

A client gets a session id (``/create_session``), with which it creates an episode (``/create``), plays it (``/prompt``,
``/call``) and deletes it. A session without a request or a ``/ping`` ends after the idle timeout.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import Annotated, Any

from fastapi import Depends, Header, HTTPException, Request, params
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, JsonValue
from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from openenv._version import __version__
from openenv.core.env_server.access.peer import peer_address
from openenv.core.env_server.http.tasks import TaskCount, TaskList, check_name
from openenv.core.env_server.metrics import Ending, Transport
from openenv.core.env_server.ors.catalog import Catalog, TaskIndex
from openenv.core.env_server.ors.episode import OrsEpisode
from openenv.core.env_server.ors.event_stream import Event, event_stream
from openenv.core.env_server.ors.messages import (
    Block,
    CallRequest,
    CreateRequest,
    OrsTool,
    SessionName,
    ToolList,
    UserMessage,
)
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.exceptions import InvalidRequestError, TaskNotFoundError
from openenv.core.wire.mcp_types import Tool
from openenv.core.wire.names import ORS_HEADER, worker_of
from openenv.core.wire.types import GetTaskRangeRequest, GetTaskRequest, ListTasksRequest, NumTasksRequest, TaskSplit

# Default idle timeout of a session, in seconds.
_IDLE_TIMEOUT_S = 900.0
# Seconds for which one request waits for an episode to begin; its client then sends it again.
_BEGINNING_TIMEOUT_S = 25.0
_STILL_STARTING = {"X-Backend-State": "starting", "Retry-After": "2"}
# Number of ids of ended sessions that are kept, to answer 410 for them instead of 404.
_ENDED_KEPT = 10_000
_LONGEST_ID = 200


def _session_id(x_session_id: Annotated[str | None, Header(max_length=_LONGEST_ID)] = None) -> str:
    sid = (x_session_id or "").strip()
    if not sid:
        raise HTTPException(400, f"{ORS_HEADER} header is required")
    return sid


SessionId = Annotated[str, Depends(_session_id)]


class OrsTask(BaseModel):
    """Task with its environment's name."""

    task: dict[str, JsonValue]
    env_name: str


class _OrsRoute(Route):
    """Route with the lowest priority among those of its path, unless the request names a session of ORS.

    The other routes are the author's own, and the public server's for tasks. Clients of ORS send the header with all
    requests but ``/create_session``, even where a request concerns no session.

    FastAPI's own route, which validates and documents, is made at the first request: most servers never have a client
    of ORS, and it takes a millisecond for each route.
    """

    def __init__(
        self, path: str, endpoint: Callable[..., Any], method: str, dependencies: Sequence[params.Depends]
    ) -> None:
        super().__init__(path, endpoint, include_in_schema=False)
        self.methods = {method}  # without HEAD, which Starlette adds to GET, and FastAPI does not
        self._dependencies = dependencies

    @cached_property
    def _route(self) -> APIRoute:
        return APIRoute(self.path, self.endpoint, methods=self.methods, dependencies=self._dependencies)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match a request without the header in part, which Starlette uses where no route matches in full."""
        match, child_scope = super().matches(scope)
        if match is Match.FULL and ORS_HEADER not in Headers(scope=scope):
            return Match.PARTIAL, child_scope
        return match, child_scope

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that matches."""
        await self._route.handle(scope, receive, send)


class OrsTransport:
    """Routes of ORS of a server.

    Args:
        sessions: Opens the sessions.
        environment: Name of the environment.
    """

    def __init__(self, sessions: SessionManager, environment: str) -> None:
        self._sessions = sessions
        self._environment = environment
        self._creating: set[str] = set()
        self._episodes: dict[str, OrsEpisode] = {}
        self._ended: dict[str, None] = {}
        self._task_index = TaskIndex()

    def routes(self, dependencies: list[params.Depends]) -> list[BaseRoute]:
        """Build the routes. The OpenAPI document leaves them out, since ORS specifies them.

        Args:
            dependencies: FastAPI dependencies of each route.
        """
        add = partial(_OrsRoute, dependencies=dependencies)
        return [
            add("/version", self.version, "GET"),
            add("/create_session", self.create_session, "POST"),
            add("/create", self.create, "POST"),
            add("/ping", self.ping, "POST"),
            add("/delete", self.delete, "POST"),
            add("/delete_session", self.delete_session, "POST"),
            *self._routes_below("", dependencies),
            *self._routes_below("/{env:path}", [*dependencies, Depends(self._check_name)]),
        ]

    def _routes_below(self, prefix: str, dependencies: list[params.Depends]) -> list[BaseRoute]:
        add = partial(_OrsRoute, dependencies=dependencies)
        return [
            add(f"{prefix}/splits", self.splits, "GET"),
            add(f"{prefix}/tasks", self.tasks, "POST"),
            add(f"{prefix}/num_tasks", self.count, "POST"),
            add(f"{prefix}/task", self.task, "POST"),
            add(f"{prefix}/task_range", self.range, "POST"),
            add(f"{prefix}/tools", self.tools, "GET"),
            add(f"{prefix}/task_tools", self.task_tools, "GET"),
            add(f"{prefix}/prompt", self.prompt, "GET"),
            add(f"{prefix}/messages", self.messages, "GET"),
            add(f"{prefix}/call", self.call, "POST"),
        ]

    # --- Tasks and tools, of no session --------------------------------------------------------------------------

    async def version(self) -> dict[str, str | None]:
        """Return the version of the server."""
        return {"version": __version__, "build_sha": None}

    async def splits(self) -> list[TaskSplit]:
        """List the splits."""
        async with self._catalog() as catalog:
            return await catalog.splits()

    async def tasks(self, body: ListTasksRequest) -> TaskList:
        """List every task of a split."""
        async with self._catalog() as catalog:
            return TaskList(tasks=await catalog.tasks(body.split), env_name=self._environment)

    async def count(self, body: NumTasksRequest) -> TaskCount:
        """Count the tasks of a split."""
        async with self._catalog() as catalog:
            return TaskCount(num_tasks=await catalog.count(body.split))

    async def task(self, body: GetTaskRequest) -> OrsTask:
        """Return one task."""
        async with self._catalog() as catalog:
            return OrsTask(task=await catalog.task(body.split, body.index), env_name=self._environment)

    async def range(self, body: GetTaskRangeRequest) -> TaskList:
        """Return the tasks from one index up to another."""
        async with self._catalog() as catalog:
            tasks = await catalog.range(body.split, body.start, body.stop)
        return TaskList(tasks=tasks, env_name=self._environment)

    async def tools(self) -> ToolList:
        """List the tools that every task has."""
        known = self._sessions.common_tools
        if known is not None:
            return _listed(known)
        async with self._sessions.temporary_session() as session:
            return await self._tools_of(session)

    # --- A session -----------------------------------------------------------------------------------------------

    async def create_session(self) -> Response:
        """Return an id for a new session."""
        return event_stream(self._sessions.new_id(), Event("end", ""))

    async def create(self, request: Request, body: CreateRequest, sid: SessionId) -> SessionName:
        """Open a session with a given id and start its episode; the answer does not wait for the reset."""
        self._check_new(sid, body)
        self._creating.add(sid)
        self._ended.pop(sid, None)
        try:
            session = await self._sessions.open(
                client=peer_address(request.scope),
                idle_timeout_s=self._sessions.limits.idle_timeout_s or _IDLE_TIMEOUT_S,
                transport=Transport.ORS,
            )
            await self._begin(sid, session, body)
        finally:
            self._creating.discard(sid)
        return SessionName(sid=sid)

    async def task_tools(self, sid: SessionId) -> ToolList:
        """List the tools of this episode."""
        return await self._tools_of((await self._begun(sid)).session)

    async def prompt(self, sid: SessionId) -> list[Block]:
        """Return the episode's prompt."""
        return (await self._begun(sid)).prompt

    async def messages(self, sid: SessionId) -> list[UserMessage]:
        """Return the prompt as a conversation."""
        return [UserMessage(blocks=(await self._begun(sid)).prompt)]

    async def call(self, body: CallRequest, sid: SessionId) -> Response:
        """Call a tool, or return the answer to an earlier call whose connection broke."""
        episode = await self._begun(sid)
        if body.task_id is None:
            return event_stream(*episode.call(body.name, body.input))
        earlier = episode.earlier_call(body.task_id)
        return event_stream(body.task_id, earlier or Event("error", "unknown task_id"))

    async def ping(self, sid: SessionId) -> dict[str, str]:
        """Keep a session open without a request."""
        self._episode(sid)
        return {"status": "ok"}

    async def delete(self, sid: SessionId) -> SessionName:
        """Close the session with this id, if there is one."""
        episode = self._episodes.get(sid)
        if episode is not None:
            self._sessions.close(episode.session)
        elif sid in self._creating:
            self._note_end(sid)
        return SessionName(sid=sid)

    async def delete_session(self, sid: SessionId) -> SessionName:
        """Release a session's id, and close its session if it is still open."""
        return await self.delete(sid)

    def _check_new(self, sid: str, body: CreateRequest) -> None:
        if body.env_name is not None:
            check_name(body.env_name, self._environment)
        if body.toolset_name is not None:
            raise HTTPException(400, f"unknown toolset {body.toolset_name!r}; this server has none")
        if sid in self._episodes or sid in self._creating:
            raise HTTPException(400, "Session already exists")
        if self._sessions.worker_count > 1 and worker_of(sid) is None:
            raise HTTPException(400, f"Expected a name in {ORS_HEADER} that /create_session has made")

    async def _begin(self, sid: str, session: Session, body: CreateRequest) -> None:
        catalog = Catalog(session, self._sessions.factory, self._task_index)
        try:
            if body.task_spec is not None:
                arguments = await catalog.arguments_of(body.task_spec)
            else:
                assert body.split is not None
                assert body.index is not None
                arguments = await catalog.arguments_for(body.split, body.index)
        except BaseException as error:
            self._sessions.close(session)
            if isinstance(error, TaskNotFoundError):
                raise HTTPException(400, error.message) from error
            raise
        if session.closed or sid in self._ended:  # meanwhile the server is ending, or the client has deleted it
            self._sessions.close(session)
            raise HTTPException(410, "Session deleted")
        self._episodes[sid] = OrsEpisode(session, arguments)
        session.on_end(partial(self._forget, sid))

    def _episode(self, sid: str) -> OrsEpisode:
        """Return an episode, and record activity of its client."""
        episode = self._episodes.get(sid)
        if episode is not None:
            episode.session.touch()
            return episode
        if sid in self._ended:
            raise HTTPException(410, "Session deleted")
        raise HTTPException(404, "Active environment not found")

    async def _begun(self, sid: str) -> OrsEpisode:
        """Return an episode after it has begun."""
        episode = self._episode(sid)
        try:
            begun = await episode.begun(_BEGINNING_TIMEOUT_S)
        except InvalidRequestError as error:
            raise HTTPException(400, error.message) from error
        if sid not in self._episodes:
            raise HTTPException(410, "Session deleted")
        if not begun:
            raise HTTPException(503, "Environment still starting.", headers=_STILL_STARTING)
        return episode

    def _forget(self, sid: str, _ending: Ending) -> None:
        self._episodes.pop(sid).end()
        self._note_end(sid)

    def _note_end(self, sid: str) -> None:
        self._ended[sid] = None
        if len(self._ended) > _ENDED_KEPT:
            del self._ended[next(iter(self._ended))]

    async def _tools_of(self, session: Session) -> ToolList:
        return _listed(await session.tools.list())

    @asynccontextmanager
    async def _catalog(self) -> AsyncIterator[Catalog]:
        async with self._sessions.temporary_session() as session:
            try:
                yield Catalog(session, self._sessions.factory, self._task_index)
            except TaskNotFoundError as error:
                raise HTTPException(400, error.message) from error

    async def _check_name(self, env: str) -> None:
        check_name(env, self._environment)


def _listed(tools: Sequence[Tool]) -> ToolList:
    return ToolList(tools=[OrsTool(**tool.model_dump()) for tool in tools])
