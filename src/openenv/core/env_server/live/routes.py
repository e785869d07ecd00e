"""Routes below ``/web/live/``: the table, the feed of a session, and forks of sessions for a person to play on.

A session is named by its public name, which begins with its worker's number. With several workers, the header
``X-OpenEnv-Session``, or ``session_id`` in the address of a socket, brings a request to the worker of the session.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from openenv.core.env_server.access.peer import peer_address
from openenv.core.env_server.live.follower import Follower, Followers, refuse
from openenv.core.env_server.live.history import recorded_entries
from openenv.core.env_server.live.table import LiveSessions, LiveTable, TablePage, TableQuery
from openenv.core.env_server.metrics import Transport
from openenv.core.env_server.operations.routes import Operations
from openenv.core.env_server.resumption.registry import ResumableSessions
from openenv.core.env_server.sessions.following import FeedEntry, SessionFeed, json_number
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.traces.writer import Hidden
from openenv.core.exceptions import ForkError, RequestError, SessionNotFoundError
from openenv.core.wire.arrays import nested
from openenv.core.wire.messages import Answer, MessageType
from openenv.core.wire.names import SESSION_HEADER

PATH = "/web/live"
PROTOCOL = "openenv.live"
"""Subprotocol of a follower's socket, beside which a page may send the server's token."""

_NO_SESSION = "No session of this name is open any more."
# Time in which a follower whose connection broke comes back and misses nothing.
_GRACE_S = 15.0


class LiveRoutes:
    """Routes of a server's sessions as they are played, for its operators.

    Args:
        sessions: The sessions of this process.
        registry: Those of them that are on v1.
        operations: Queries the other workers.
    """

    def __init__(self, sessions: SessionManager, registry: ResumableSessions, operations: Operations) -> None:
        self._sessions = sessions
        self._registry = registry
        self._operations = operations
        self._table = LiveTable(operations.of_all)
        LiveSessions(sessions, operations)
        self._hidden = Hidden(sessions.limits.secrets)
        self._followers = Followers()

    def router(self) -> APIRouter:
        """Build the routes over HTTP."""
        router = APIRouter(include_in_schema=False)
        router.add_api_route(f"{PATH}/sessions", self.table, response_model=TablePage)
        router.add_api_route(f"{PATH}/fork", self.fork, methods=["POST"])
        return router

    def socket(self) -> BaseRoute:
        """Build the route of the feed."""
        return WebSocketRoute(f"{PATH}/feed", self.feed)

    async def table(self, query: Annotated[TableQuery, Query()]) -> TablePage:
        """List the sessions of all workers, by pages."""
        return await self._table.page(query, self._sessions.limits.max_sessions)

    async def fork(self, request: Request, name: Annotated[str, Header(alias=SESSION_HEADER)]) -> Response:
        """Open a session that continues where another one stands, for the client to attach to on v1."""
        original = self._registry.named(name)
        if original is None:
            raise self._no_fork(name)
        forked, last = await self._registry.fork_for(original, peer_address(request.scope))
        episode = forked.session.episode
        outcome = _outcome_json(last)
        content = (
            f'{{"session":"{forked.session.id}","terms":{self._registry.terms(forked)},"episode":{episode.number},'
            f'"step":{episode.step_count},"total":{json_number(episode.reward)},"outcome":{outcome}}}'
        )
        return Response(content, media_type="application/json", headers={"Cache-Control": "no-store"})

    async def feed(self, socket: WebSocket) -> None:
        """Send the entries of a session as they come; see ``Follower``."""
        await socket.accept(PROTOCOL if PROTOCOL in socket.scope["subprotocols"] else None)
        name, known = socket.query_params.get("session_id", ""), socket.query_params.get("feed", "")
        session = self._sessions.named(name)
        if session is None:
            await socket.send_json({"ended": _NO_SESSION})
            await socket.close()
            return
        feed = session.follow()
        refusal = self._followers.refusal(feed)
        if refusal is not None:
            await refuse(socket, refusal)
            _unfollow(session, feed)
            return
        feed.followers += 1
        self._followers.count += 1
        try:
            row = partial(self._row, session)
            recorded = partial(self._recorded, session)
            follower = Follower(socket, feed, row, recorded, self._secrets, self._followers)
            await follower.serve(known, _whole_number(socket.query_params.get("after", "")))
        finally:
            feed.followers -= 1
            self._followers.count -= 1
            asyncio.get_running_loop().call_later(_GRACE_S, _unfollow, session, feed)

    def _row(self, session: Session) -> dict[str, Any]:
        return self._operations.row(session).model_dump()

    async def _recorded(self, session: Session, before: tuple[int, int] | None) -> list[FeedEntry]:
        """Return the entries of the session's current episode that are on record; none where they can't be read."""
        resumable = self._registry.named(session.name)
        if resumable is None:
            return []
        try:
            return await recorded_entries(resumable, before)
        except RequestError:
            return []

    def _secrets(self) -> Sequence[str]:
        return self._hidden.now().secrets

    def _no_fork(self, name: str) -> RequestError:
        """Return the error for a session that is not one of v1."""
        session = self._sessions.named(name)
        if session is None:
            return SessionNotFoundError(name, _NO_SESSION)
        spoken = f"its client speaks {session.transport}, and only sessions of clients on {Transport.V1} can be forked"
        return ForkError({"any way": spoken})


def _outcome_json(answer: Answer | None) -> str:
    """Return the outcome of a reset or a step; ``null`` for another answer."""
    return "null" if answer is None or answer.type != MessageType.OBSERVATION else nested(answer.text)


def _unfollow(session: Session, feed: SessionFeed) -> None:
    if feed.followers == 0:
        session.unfollow(feed)


def _whole_number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 16 else 0
