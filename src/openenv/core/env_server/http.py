"""The HTTP transport: what a server is, and episodes for clients that speak no WebSocket.

A session over HTTP belongs to a client, which names it by header or cookie:

- ``POST /reset`` opens one and answers with its id in the header ``X-OpenEnv-Session`` and in a cookie. A client that
  sends either back, as any cookie jar does by itself, continues this session.
- A client that sends neither is answered as by the public server: each call gets an environment of its own. The session
  that its reset opened is held only while nobody needs the place, and for a minute at most.
"""

from typing import Any

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openenv.core.env_server.outcomes import Outcome
from openenv.core.env_server.protocol import error_json, outcome_json, state_json
from openenv.core.env_server.sessions import Session, Sessions
from openenv.core.env_server.types import (
    EnvironmentMetadata,
    HealthResponse,
    ResetRequest,
    ResetResponse,
    SchemaResponse,
    ServerMode,
    StepRequest,
    StepResponse,
)
from openenv.core.exceptions import (
    InvalidRequestError,
    MessageTooLargeError,
    RequestError,
    ResetNeededError,
    SessionCapacityError,
    SessionNotFoundError,
)

SESSION_HEADER = "X-OpenEnv-Session"
SESSION_COOKIE = "openenv_session"

# A client that takes its session up again is expected back within this time, unless the server says otherwise.
_IDLE_TIMEOUT_S = 900.0
# Whether a client will take its session up at all shows with its next call.
_UNCLAIMED_TIMEOUT_S = 60.0

_STATUS_BY_CODE = {
    "VALIDATION_ERROR": 422,
    "CAPACITY_REACHED": 503,
    "TIMEOUT": 504,
    "TOO_LARGE": 413,
}


class HTTPTransport:
    """The routes of one server.

    Args:
        sessions: Where sessions are opened.
        reset_observation: Class of the observation after a reset, where it differs.
    """

    def __init__(self, sessions: Sessions, reset_observation: type[BaseModel] | None = None) -> None:
        self._sessions = sessions
        self._reset_observation = reset_observation

    def router(self, mode: ServerMode) -> APIRouter:
        """Build the routes. Production mode has none that drive an episode."""
        router = APIRouter()
        router.add_api_route("/health", self.health, response_model=HealthResponse, tags=["Server"])
        router.add_api_route("/metadata", self.metadata, response_model=EnvironmentMetadata, tags=["Environment"])
        router.add_api_route("/schema", self.schema, response_model=SchemaResponse, tags=["Environment"])
        if mode is ServerMode.SIMULATION:
            add = router.add_api_route
            add("/reset", self.reset, methods=["POST"], response_model=ResetResponse, tags=["Episode"])
            add("/step", self.step, methods=["POST"], response_model=StepResponse, tags=["Episode"])
            add("/state", self.state, response_model=self._sessions.types.state, tags=["Episode"])
            add("/session", self.close, methods=["DELETE"], status_code=204, tags=["Episode"])
        return router

    async def health(self) -> HealthResponse:
        """Say that the server is there. No environment is touched."""
        return HealthResponse()

    async def metadata(self) -> Any:
        """Say what the environment is."""
        async with self._sessions.apart() as session:
            return await session.metadata()

    async def schema(self) -> SchemaResponse:
        """Give the JSON Schemas of actions, observations and states."""
        types = self._sessions.types
        reset_observation = self._reset_observation
        return SchemaResponse(
            action=types.action.model_json_schema(),
            observation=types.observation.model_json_schema(),
            state=types.state.model_json_schema(),
            reset_observation=None if reset_observation is None else reset_observation.model_json_schema(),
        )

    async def reset(self, request: Request, body: ResetRequest | None = None) -> Response:
        """Start an episode. The answer names the session in a header and a cookie; send either back to continue it."""
        arguments = {} if body is None else body.model_dump(exclude_unset=True)
        session = self._named_session(request, cookie_may_be_stale=True) or await self._open()
        if session is not None:
            return _naming(_outcome_response(await session.reset(arguments)), session)
        async with self._sessions.apart() as session:
            return _outcome_response(await session.reset(arguments))

    async def step(self, request: Request, body: StepRequest) -> Response:
        """Do one action, in the session that the request names or, without one, in a fresh environment."""
        options = body.model_dump(exclude={"action", "timeout_s"}, exclude_unset=True)
        session = self._named_session(request)
        if session is not None:
            return _outcome_response(await session.step(body.action, options, body.timeout_s))
        async with self._sessions.apart() as session:
            return _outcome_response(await session.step(body.action, options, body.timeout_s))

    async def state(self, request: Request) -> Response:
        """Read the state of the session that the request names or, without one, of a fresh environment."""
        session = self._named_session(request)
        if session is not None:
            return _json(state_json(await session.state()))
        async with self._sessions.apart() as session:
            return _json(state_json(await session.state()))

    async def close(self, request: Request) -> Response:
        """End the session that the request names."""
        session = self._named_session(request)
        if session is not None:
            self._sessions.close(session)
        response = Response(status_code=204)
        response.delete_cookie(SESSION_COOKIE)
        return response

    def _named_session(self, request: Request, *, cookie_may_be_stale: bool = False) -> Session | None:
        """Find the session that a request names; ``None`` where it names none.

        Raises:
            SessionNotFoundError: It names one that has ended. Stepping a fresh environment in its place would silently
                play another episode; only a reset may start anew from an old cookie.
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
        session.yielding = False
        session.idle_timeout_s = self._sessions.limits.idle_timeout_s or _IDLE_TIMEOUT_S
        return session

    async def _open(self) -> Session | None:
        """Open a session for a client that named none; ``None`` where there is no place for it."""
        try:
            timeout_s = min(_UNCLAIMED_TIMEOUT_S, self._sessions.limits.idle_timeout_s or _UNCLAIMED_TIMEOUT_S)
            session = await self._sessions.open(idle_timeout_s=timeout_s)
        except SessionCapacityError:
            return None
        session.yielding = True
        return session


async def answer_request_error(_request: Request, error: Exception) -> Response:
    """Answer a request that failed: FastAPI's own form for an invalid one, else the fields of an error frame."""
    assert isinstance(error, RequestError)
    status = _STATUS_BY_CODE.get(error.code, 500)
    if isinstance(error, SessionNotFoundError):
        status = 404
    elif isinstance(error, ResetNeededError):
        status = 409
    if isinstance(error, InvalidRequestError):
        return _json(error_json({"detail": error.errors, "code": error.code}), status)
    return _json(error_json({"detail": error.message, "code": error.code, **error.details}), status)


async def answer_invalid_body(_request: Request, error: Exception) -> Response:
    """Answer a body that does not fit, also where it holds what FastAPI's own answer cannot repeat, such as NaN."""
    assert isinstance(error, RequestValidationError)
    return _json(error_json({"detail": error.errors()}), 422)


async def answer_large_body(request: Request, error: Exception) -> Response:
    """Answer a body that turned out too large while it was read."""
    assert isinstance(error, _BodyTooLargeError)
    return await answer_request_error(request, error.reason)


def add_error_handlers(app: FastAPI) -> None:
    """Have an application answer the errors of these routes."""
    app.add_exception_handler(RequestError, answer_request_error)
    app.add_exception_handler(RequestValidationError, answer_invalid_body)
    app.add_exception_handler(_BodyTooLargeError, answer_large_body)


class _BodyTooLargeError(HTTPException):
    """Carries the error through FastAPI, which takes any other one for broken JSON."""

    def __init__(self, reason: MessageTooLargeError) -> None:
        self.reason = reason
        super().__init__(413)


class BodyLimit:
    """ASGI middleware that refuses a request body above a limit, by its declared length or as it arrives.

    FastAPI's own ``max_body_size`` answers in plain text; clients of this server expect a code.

    Args:
        app: The application behind it.
        max_bytes: Longest body that is passed on.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = int(Headers(scope=scope).get("content-length", 0))
        if declared > self._max_bytes:
            response = await answer_request_error(Request(scope), MessageTooLargeError(declared, self._max_bytes))
            await response(scope, receive, send)
            return
        await self._app(scope, _LimitedBody(receive, self._max_bytes).receive, send)


class _LimitedBody:
    """Counts the bytes of one request's body as they are received."""

    def __init__(self, receive: Receive, max_bytes: int) -> None:
        self._receive = receive
        self._max_bytes = max_bytes
        self._received = 0

    async def receive(self) -> Message:
        message = await self._receive()
        self._received += len(message.get("body", b""))
        if self._received > self._max_bytes:
            raise _BodyTooLargeError(MessageTooLargeError(self._received, self._max_bytes))
        return message


def _outcome_response(outcome: Outcome) -> Response:
    """Write an outcome as the public server does over HTTP: the reward as a float, the metadata always there."""
    if outcome.reward is not None:
        outcome.reward = float(outcome.reward)
    return _json(outcome_json(outcome, always_metadata=True))


def _json(text: str, status: int = 200) -> Response:
    return Response(text, status, media_type="application/json")


def _naming(response: Response, session: Session) -> Response:
    response.headers[SESSION_HEADER] = session.id
    response.set_cookie(SESSION_COOKIE, session.id, httponly=True, samesite="strict")
    return response
