"""HTTP transport: metadata of the server, and episodes for clients without WebSocket.

A client names its session over HTTP by a header or a cookie:

- ``POST /reset`` opens a session and answers with its id in the header ``X-OpenEnv-Session`` and in a cookie. A client
  that sends either back, as any cookie jar does by itself, continues this session.
- A client that sends neither gets a fresh environment for each request, as from the public server. The session that its
  reset opened is closed after a minute, or earlier if another client needs the slot.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Depends, Request, params
from fastapi.responses import Response
from pydantic import BaseModel

from openenv.core.env_server.access.clients import ClientLimits
from openenv.core.env_server.access.peer import peer_address
from openenv.core.env_server.http.errors import guarded, json_response, refusals
from openenv.core.env_server.http.examples import example_of
from openenv.core.env_server.metrics import Transport
from openenv.core.env_server.sessions.about import About
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.exceptions import (
    ClientCapacityError,
    DrainingError,
    SessionCapacityError,
    SessionNotFoundError,
)
from openenv.core.wire.answers import is_long, outcome_json, state_json
from openenv.core.wire.names import SESSION_COOKIE, SESSION_HEADER
from openenv.core.wire.results import Outcome
from openenv.core.wire.types import (
    EnvironmentMetadata,
    HealthResponse,
    ReadyResponse,
    ResetRequest,
    ResetResponse,
    SchemaResponse,
    ServerMode,
    StepRequest,
    StepResponse,
)

# Idle timeout of a session that its client has continued, unless the server's settings differ.
_IDLE_TIMEOUT_S = 900.0
# Idle timeout of a session whose client has not named it in a request yet.
_UNCLAIMED_TIMEOUT_S = 60.0

# Timeout for the state of a fresh environment when the server sets no limit for steps.
_STATE_TIMEOUT_S = 30.0
WARNING_HEADER = "X-OpenEnv-Warning"
"""Response header that names the arguments of a request that the environment does not accept, and that were ignored."""

_READY: dict[int | str, dict[str, Any]] = {503: {"model": ReadyResponse, "description": "It opens no new sessions."}}


_NAMING_A_SESSION = {
    "parameters": [
        {
            "name": SESSION_HEADER,
            "in": "header",
            "description": "The session, as the answer to a reset has named it; the cookie serves as well.",
            "schema": {"type": "string"},
        }
    ]
}

# Path of the action's schema within the OpenAPI document: the references in that schema are relative to it.
_ACTION_AT = "#/paths/~1step/post/requestBody/content/application~1json/schema/properties/action"


def _taking(action_class: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI description of a step's body, with this server's class of actions."""
    action = action_class.model_json_schema(ref_template=f"{_ACTION_AT}/$defs/{{model}}")
    body: dict[str, Any] = {"schema": {"properties": {"action": action}}}
    example = example_of(action_class)
    if example is not None:
        body["example"] = {"action": example}
    return {"requestBody": {"content": {"application/json": body}}}


def _resetting() -> dict[str, Any]:
    """Return the OpenAPI description of a reset's body."""
    return {"requestBody": {"content": {"application/json": {"example": {"seed": 1}}}}}


class HTTPTransport:
    """HTTP routes of a server.

    Args:
        sessions: Opens the sessions.
        about: Description of the environment.
        clients: Limits of the clients.
        reset_observation: Class of the observation after a reset, where it differs.

    Attributes:
        limited: FastAPI dependencies of every route whose requests count towards a client's rate limit.
    """

    def __init__(
        self,
        sessions: SessionManager,
        about: About,
        clients: ClientLimits,
        reset_observation: type[BaseModel] | None = None,
    ) -> None:
        self._sessions = sessions
        self._about = about
        self._clients = clients
        self._reset_observation = reset_observation
        self.limited: list[params.Depends] = [Depends(self.check_rate)] if clients.limits_messages else []

    def router(self, mode: ServerMode) -> APIRouter:
        """Build the routes. Production mode has no routes that reset or step."""
        router = guarded()
        router.add_api_route("/health", self.health, response_model=HealthResponse, tags=["Server"])
        router.add_api_route("/ready", self.ready, responses=_READY, response_model=ReadyResponse, tags=["Server"])
        add = partial(router.add_api_route, dependencies=self.limited)
        failing = refusals(429, 500, 503, 504)
        metadata: dict[str, Any] = {"response_model": EnvironmentMetadata, "responses": failing}
        add("/metadata", self.metadata, tags=["Environment"], **metadata)
        add("/schema", self.schema, response_model=SchemaResponse, responses=refusals(429), tags=["Environment"])
        if mode is ServerMode.SIMULATION:
            self._add_episode_routes(partial(add, tags=["Episode"]))
        return router

    def _add_episode_routes(self, add: Callable[..., None]) -> None:
        failing = refusals(404, 429, 500, 503, 504)
        acting = failing | refusals(400, 413)
        naming: dict[str, Any] = {"openapi_extra": _NAMING_A_SESSION}
        taking = {"openapi_extra": _NAMING_A_SESSION | _taking(self._sessions.types.action)}
        answers = {"response_model": StepResponse, "responses": acting | refusals(409)}
        resetting = {"openapi_extra": _NAMING_A_SESSION | _resetting()}
        add("/reset", self.reset, methods=["POST"], response_model=ResetResponse, responses=acting, **resetting)
        add("/step", self.step, methods=["POST"], **answers, **taking)
        add("/state", self.state, response_model=self._sessions.types.state, responses=failing, **naming)
        add("/session", self.close, methods=["DELETE"], status_code=204, responses=refusals(404, 429), **naming)

    async def health(self) -> HealthResponse:
        """Answer that the server is up, without an environment."""
        return HealthResponse()

    async def ready(self) -> Response:
        """Answer whether the server opens new sessions: status 503 once it is draining."""
        draining = self._sessions.capacity.draining
        answer = ReadyResponse(status="draining" if draining else "ready")
        return json_response(answer.model_dump_json(), 503 if draining else 200)

    async def check_rate(self, request: Request) -> None:
        """Count a request of a client.

        Raises:
            RateLimitedError: The request is above the client's limit.
        """
        self._clients.check_rate(peer_address(request.scope))

    async def metadata(self) -> Any:
        """Return the environment's metadata."""
        return self._about.completed(await self._sessions.metadata())

    async def schema(self) -> SchemaResponse:
        """Return the JSON Schemas of actions, observations and states."""
        types = self._sessions.types
        reset_observation = self._reset_observation or types.observation
        return SchemaResponse(
            action=types.action.model_json_schema(),
            observation=types.observation.model_json_schema(),
            state=types.state.model_json_schema(),
            reset=self._sessions.reset_schema(),
            reset_observation=reset_observation.model_json_schema(),
        )

    async def reset(self, request: Request, body: ResetRequest | None = None) -> Response:
        """Start an episode. The answer names the session in a header and a cookie; send either back to continue it."""
        arguments = {} if body is None else body.model_dump(exclude_unset=True)
        session = self._named_session(request, cookie_may_be_stale=True) or await self._open(request)
        if session is not None:
            answer = await _outcome_response(
                await session.reset(arguments), session.checks.unknown_parameters(arguments)
            )
            return _naming(answer, session, secure=request.url.scheme == "https")
        async with self._sessions.temporary_session(peer_address(request.scope)) as session:
            return await _outcome_response(await session.reset(arguments), session.checks.unknown_parameters(arguments))

    async def step(self, request: Request, body: StepRequest) -> Response:
        """Execute an action, in the session that the request names or, without one, in a fresh environment."""
        options = body.model_dump(exclude={"action", "timeout_s"}, exclude_unset=True)
        own = body.model_extra or {}
        session = self._named_session(request)
        if session is not None:
            return await _outcome_response(
                await session.step(body.action, body.timeout_s, options), session.checks.unknown_options(own)
            )
        async with self._sessions.temporary_session(peer_address(request.scope)) as session:
            return await _outcome_response(
                await session.step(body.action, body.timeout_s, options), session.checks.unknown_options(own)
            )

    async def state(self, request: Request) -> Response:
        """Return the state of the session that the request names or, without one, of a fresh environment."""
        session = self._named_session(request)
        if session is not None:
            return json_response(state_json(await session.state()))
        async with self._sessions.temporary_session() as session:
            return json_response(state_json(await session.state(_STATE_TIMEOUT_S)))

    async def close(self, request: Request) -> Response:
        """Close the session that the request names."""
        session = self._named_session(request)
        if session is not None:
            self._sessions.close(session)
        response = Response(status_code=204)
        response.delete_cookie(SESSION_COOKIE)
        return response

    def _named_session(self, request: Request, *, cookie_may_be_stale: bool = False) -> Session | None:
        """Return the session that a request names; ``None`` for a request without a session.

        Raises:
            SessionNotFoundError: The session has ended. A step of a fresh environment instead would silently play
                another episode; only a reset may start a session with an old cookie.
        """
        header = request.headers.get(SESSION_HEADER)
        session_id = header or request.cookies.get(SESSION_COOKIE)
        if session_id is None:
            return None
        try:
            session = self._sessions.get(session_id)
        except SessionNotFoundError:
            if cookie_may_be_stale and header is None:
                return None
            raise
        session.resume(self._sessions.limits.idle_timeout_s or _IDLE_TIMEOUT_S)
        return session

    async def _open(self, request: Request) -> Session | None:
        """Open a session for a request that names none; ``None`` if no slot is free.

        Raises:
            ClientCapacityError: The client has reached its limit of sessions.
            DrainingError: The server is draining.
        """
        timeout_s = min(_UNCLAIMED_TIMEOUT_S, self._sessions.limits.idle_timeout_s or _UNCLAIMED_TIMEOUT_S)
        client = peer_address(request.scope)
        try:
            return await self._sessions.open(
                client=client, idle_timeout_s=timeout_s, transport=Transport.HTTP, evictable=True
            )
        except (ClientCapacityError, DrainingError):
            raise
        except SessionCapacityError:
            return None


async def _outcome_response(outcome: Outcome, warning: str | None) -> Response:
    """Return an outcome in the public server's form for HTTP: the reward as a float, always with metadata."""
    if outcome.reward is not None:
        outcome.reward = float(outcome.reward)
    headers = None if warning is None else {WARNING_HEADER: _in_header(f"{warning} It was left out.")}
    write = partial(outcome_json, outcome, always_metadata=True)
    observation = outcome.observation
    is_written_aside = isinstance(observation, BaseModel) and is_long(observation)
    return json_response(await asyncio.to_thread(write) if is_written_aside else write(), headers=headers)


def _in_header(text: str) -> str:
    """Return a text with visible ASCII characters only."""
    return text.encode("ascii", "backslashreplace").decode()


def _naming(response: Response, session: Session, *, secure: bool) -> Response:
    response.headers[SESSION_HEADER] = session.id
    response.set_cookie(SESSION_COOKIE, session.id, httponly=True, samesite="strict", secure=secure)
    return response
