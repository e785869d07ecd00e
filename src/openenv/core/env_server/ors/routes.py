"""The routes of ORS, as its clients ask for them: with the environment's name in front, or without.

A session begins with a name (``/create_session``), under which an episode is created (``/create``), played
(``/prompt``, ``/call``) and deleted. It ends too when its client neither asks for anything nor sends a ``/ping`` for a
while.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Request, params
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, JsonValue
from starlette.datastructures import Headers
from starlette.routing import Match
from starlette.types import Scope

from openenv.core.env_server.clients import client_of
from openenv.core.env_server.mcp_types import Tool
from openenv.core.env_server.metrics import Transport
from openenv.core.env_server.ors.catalog import Catalog
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
from openenv.core.env_server.session import Session
from openenv.core.env_server.session_ids import ORS_HEADER, worker_of
from openenv.core.env_server.sessions import Sessions
from openenv.core.env_server.task_routes import TaskCount, TaskList, check_name
from openenv.core.env_server.types import (
    GetTaskRangeRequest,
    GetTaskRequest,
    ListTasksRequest,
    NumTasksRequest,
    TaskSplit,
)
from openenv.core.exceptions import InvalidRequestError, TaskNotFoundError

# A session of which nothing is heard for so long is closed, unless the server says otherwise.
_IDLE_TIMEOUT_S = 900.0
# How long one request waits for an episode to begin; its client then asks again.
_BEGINNING_TIMEOUT_S = 25.0
_STILL_STARTING = {"X-Backend-State": "starting", "Retry-After": "2"}
# Ended sessions that are told from those that never were.
_ENDED_KEPT = 10_000
_LONGEST_ID = 200


def _session_id(x_session_id: Annotated[str | None, Header(max_length=_LONGEST_ID)] = None) -> str:
    sid = (x_session_id or "").strip()
    if not sid:
        raise HTTPException(400, f"{ORS_HEADER} header is required")
    return sid


SessionId = Annotated[str, Depends(_session_id)]


class OrsTask(BaseModel):
    """A task, and whose it is."""

    task: dict[str, JsonValue]
    env_name: str


class _OrsRoute(APIRoute):
    """A route on a path that the public server answers too; it is for those who name a session of ORS.

    All clients of ORS do so, even where they ask for what concerns no session.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match a request that has the header."""
        if ORS_HEADER not in Headers(scope=scope):
            return Match.NONE, {}
        return super().matches(scope)


class OrsTransport:
    """The routes of one server.

    Args:
        sessions: Where sessions are opened.
        environment: Name of the environment.
    """

    def __init__(self, sessions: Sessions, environment: str) -> None:
        self._sessions = sessions
        self._environment = environment
        self._creating: set[str] = set()
        self._episodes: dict[str, OrsEpisode] = {}
        self._ended: dict[str, None] = {}

    def router(self, dependencies: list[params.Depends]) -> APIRouter:
        """Build the routes. ORS describes them, so the OpenAPI document does not.

        Args:
            dependencies: What is asked before each of them.
        """
        router = APIRouter(dependencies=dependencies, include_in_schema=False)
        add = router.add_api_route
        add("/version", self.version)
        add("/create_session", self.create_session, methods=["POST"])
        add("/create", self.create, methods=["POST"])
        add("/ping", self.ping, methods=["POST"])
        add("/delete", self.delete, methods=["POST"])
        add("/delete_session", self.delete_session, methods=["POST"])
        self._add_task_routes(add)
        self._add_episode_routes(add)
        named: dict[str, Any] = {"prefix": "/{env:path}", "dependencies": [Depends(self._check_name)]}
        tasks, episodes = APIRouter(route_class=_OrsRoute, **named), APIRouter(**named)
        self._add_task_routes(tasks.add_api_route)
        self._add_episode_routes(episodes.add_api_route)
        router.include_router(tasks)
        router.include_router(episodes)
        return router

    def _add_task_routes(self, add: Callable[..., None]) -> None:
        add("/splits", self.splits)
        add("/tasks", self.tasks, methods=["POST"])
        add("/num_tasks", self.count, methods=["POST"])
        add("/task", self.task, methods=["POST"])
        add("/task_range", self.range, methods=["POST"])

    def _add_episode_routes(self, add: Callable[..., None]) -> None:
        add("/tools", self.tools)
        add("/task_tools", self.task_tools)
        add("/prompt", self.prompt)
        add("/messages", self.messages)
        add("/call", self.call, methods=["POST"])

    # --- Tasks and tools, of no session --------------------------------------------------------------------------

    async def version(self) -> dict[str, str | None]:
        """Say which version this server is of."""
        return {"version": version("openenv-core"), "build_sha": None}

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
        """Give one task."""
        async with self._catalog() as catalog:
            return OrsTask(task=await catalog.task(body.split, body.index), env_name=self._environment)

    async def range(self, body: GetTaskRangeRequest) -> TaskList:
        """Give the tasks from one index up to another."""
        async with self._catalog() as catalog:
            tasks = await catalog.range(body.split, body.start, body.stop)
        return TaskList(tasks=tasks, env_name=self._environment)

    async def tools(self) -> ToolList:
        """List the tools that every task has."""
        known = self._sessions.toolbox.same_for_all
        if known is not None:
            return _listed(known)
        async with self._sessions.apart() as session:
            return await self._tools_of(session)

    # --- A session -----------------------------------------------------------------------------------------------

    async def create_session(self) -> Response:
        """Make a name for a session."""
        return event_stream(self._sessions.new_id(), Event("end", ""))

    async def create(self, request: Request, body: CreateRequest, sid: SessionId) -> SessionName:
        """Open a session under a name and begin its episode, which goes on when this has answered."""
        self._check_new(sid, body)
        self._creating.add(sid)
        self._ended.pop(sid, None)
        try:
            session = await self._sessions.open(
                client=client_of(request.scope),
                idle_timeout_s=self._sessions.limits.idle_timeout_s or _IDLE_TIMEOUT_S,
                transport=Transport.ORS,
            )
            await self._begin(sid, session, body)
        finally:
            self._creating.discard(sid)
        return SessionName(sid=sid)

    async def task_tools(self, sid: SessionId) -> ToolList:
        """List the tools that there are in this episode."""
        return await self._tools_of((await self._begun(sid)).session)

    async def prompt(self, sid: SessionId) -> list[Block]:
        """Give what a model is shown first."""
        return (await self._begun(sid)).prompt

    async def messages(self, sid: SessionId) -> list[UserMessage]:
        """Give the same as a conversation."""
        return [UserMessage(blocks=(await self._begun(sid)).prompt)]

    async def call(self, body: CallRequest, sid: SessionId) -> Response:
        """Call a tool, or take up the answer to an earlier call whose connection broke."""
        episode = await self._begun(sid)
        if body.task_id is None:
            return event_stream(*episode.call(body.name, body.input))
        earlier = episode.earlier_call(body.task_id)
        return event_stream(body.task_id, earlier or Event("error", "unknown task_id"))

    async def ping(self, sid: SessionId) -> dict[str, str]:
        """Keep a session whose client does something else for a while."""
        self._episode(sid)
        return {"status": "ok"}

    async def delete(self, sid: SessionId) -> SessionName:
        """End a session, if there is one of this name."""
        episode = self._episodes.get(sid)
        if episode is not None:
            self._sessions.close(episode.session)
        elif sid in self._creating:
            self._note_end(sid)
        return SessionName(sid=sid)

    async def delete_session(self, sid: SessionId) -> SessionName:
        """Give a name back; its session, if there still is one, ends."""
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
        catalog = Catalog(session, self._sessions.factory)
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
        if session.closed or sid in self._ended:  # meanwhile: the server ends, or the client has given up
            self._sessions.close(session)
            raise HTTPException(410, "Session deleted")
        self._episodes[sid] = OrsEpisode(session, self._sessions.toolbox, arguments)
        session.on_end = partial(self._forget, sid)

    def _episode(self, sid: str) -> OrsEpisode:
        """Find an episode, whose client is there."""
        episode = self._episodes.get(sid)
        if episode is not None:
            episode.session.keep()
            return episode
        if sid in self._ended:
            raise HTTPException(410, "Session deleted")
        raise HTTPException(404, "Active environment not found")

    async def _begun(self, sid: str) -> OrsEpisode:
        """Find an episode and wait for it to begin."""
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

    def _forget(self, sid: str) -> None:
        self._episodes.pop(sid).end()
        self._note_end(sid)

    def _note_end(self, sid: str) -> None:
        self._ended[sid] = None
        if len(self._ended) > _ENDED_KEPT:
            del self._ended[next(iter(self._ended))]

    async def _tools_of(self, session: Session) -> ToolList:
        return _listed(await self._sessions.toolbox.tools(session))

    @asynccontextmanager
    async def _catalog(self) -> AsyncIterator[Catalog]:
        async with self._sessions.apart() as session:
            try:
                yield Catalog(session, self._sessions.factory)
            except TaskNotFoundError as error:
                raise HTTPException(400, error.message) from error

    async def _check_name(self, env: str) -> None:
        check_name(env, self._environment)


def _listed(tools: list[Tool]) -> ToolList:
    return ToolList(tools=[OrsTool(**tool.model_dump()) for tool in tools])
