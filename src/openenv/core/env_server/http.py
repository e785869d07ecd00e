"""The HTTP transport: what a server is, and episodes for clients that speak no WebSocket.

A session over HTTP belongs to a client, which names it by header or cookie:

- ``POST /reset`` opens one and answers with its id in the header ``X-OpenEnv-Session`` and in a cookie. A client that
  sends either back, as any cookie jar does by itself, continues this session.
- A client that sends neither is answered as by the public server: each call gets an environment of its own. The session
  that its reset opened is held only while nobody needs the place, and for a minute at most.
"""

from collections.abc import Callable, Mapping
from functools import partial
from math import ceil
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, params
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openenv.core.env_server.about import About
from openenv.core.env_server.clients import client_of
from openenv.core.env_server.disclosure import add_traceback
from openenv.core.env_server.examples import example_of
from openenv.core.env_server.metrics import Metrics, Transport
from openenv.core.env_server.outcomes import Outcome
from openenv.core.env_server.protocol import check_marks, count_marks, error_data, error_json, outcome_json, state_json
from openenv.core.env_server.rate import Rates
from openenv.core.env_server.session import Session
from openenv.core.env_server.session_ids import SESSION_COOKIE, SESSION_HEADER
from openenv.core.env_server.sessions import Sessions
from openenv.core.env_server.types import (
    EnvironmentMetadata,
    ErrorResponse,
    HealthResponse,
    ReadyResponse,
    ResetRequest,
    ResetResponse,
    SchemaResponse,
    ServerMode,
    StepRequest,
    StepResponse,
)
from openenv.core.exceptions import (
    ClientCapacityError,
    DrainingError,
    InvalidRequestError,
    MessageTooLargeError,
    RateLimitedError,
    RequestError,
    ResetNeededError,
    SessionCapacityError,
    SessionNotFoundError,
    TooManyValuesError,
)

# A client that takes its session up again is expected back within this time, unless the server says otherwise.
_IDLE_TIMEOUT_S = 900.0
# Whether a client will take its session up at all shows with its next call.
_UNCLAIMED_TIMEOUT_S = 60.0

# How long the state of a fresh environment may take, where the server sets no limit to a step.
_STATE_TIMEOUT_S = 30.0
# When a client whom nothing can be made for may ask again.
_RETRY_AFTER_S = 1.0
WARNING_HEADER = "X-OpenEnv-Warning"
"""Names what of a request the environment does not take, so that it was left out."""

# What a body that does not fit is counted as.
_INVALID_BODY = "VALIDATION_ERROR"

_STATUS_BY_CODE = {
    "VALIDATION_ERROR": 422,
    "CAPACITY_REACHED": 503,
    "TIMEOUT": 504,
    "TOO_LARGE": 413,
    "RATE_LIMITED": 429,
}

_READY: dict[int | str, dict[str, Any]] = {503: {"model": ReadyResponse, "description": "It takes no new sessions."}}


_MEANINGS = {
    400: "The body is no text.",
    401: "A token is needed, or another one.",
    403: "The request comes from another site, or asks for another host.",
    404: "The session that it names has ended.",
    409: "No episode has been started, or it has ended; reset it.",
    413: "The body is too long.",
    429: "More requests than a client may send.",
    500: "The environment failed.",
    503: "The server is about to end, or it or this client has as many environments as it may have; ask again.",
    504: "The environment took too long.",
}

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

# Where the OpenAPI document has the schema of an action, to which what that refers to is relative.
_ACTION_AT = "#/paths/~1step/post/requestBody/content/application~1json/schema/properties/action"


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the answers to requests that fail, for the OpenAPI document."""
    return {status: {"model": ErrorResponse, "description": _MEANINGS[status]} for status in statuses}


def _taking(action_class: type[BaseModel]) -> dict[str, Any]:
    """Describe the body of a step, whose action is of a class that each server has of its own."""
    action = action_class.model_json_schema(ref_template=f"{_ACTION_AT}/$defs/{{model}}")
    body: dict[str, Any] = {"schema": {"properties": {"action": action}}}
    example = example_of(action_class)
    if example is not None:
        body["example"] = {"action": example}
    return {"requestBody": {"content": {"application/json": body}}}


def _resetting() -> dict[str, Any]:
    """Show the body of a reset."""
    return {"requestBody": {"content": {"application/json": {"example": {"seed": 1}}}}}


class HTTPTransport:
    """The routes of one server.

    Args:
        sessions: Where sessions are opened.
        about: What the environment is.
        reset_observation: Class of the observation after a reset, where it differs.

    Attributes:
        limited: What every route depends on that counts towards the messages of a client.
    """

    def __init__(self, sessions: Sessions, about: About, reset_observation: type[BaseModel] | None = None) -> None:
        self._sessions = sessions
        self._about = about
        self._reset_observation = reset_observation
        per_s = sessions.limits.max_messages_per_s
        self._rates = None if per_s is None else Rates(per_s)
        self.limited: list[params.Depends] = [] if self._rates is None else [Depends(self.check_rate)]

    def router(self, mode: ServerMode) -> APIRouter:
        """Build the routes. Production mode has none that drive an episode."""
        router = APIRouter()
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
        """Say that the server is there. No environment is touched."""
        return HealthResponse()

    async def ready(self) -> Response:
        """Say whether new sessions are taken: status 503 once the server is about to end."""
        draining = self._sessions.line.draining
        answer = ReadyResponse(status="draining" if draining else "ready")
        return _json(answer.model_dump_json(), 503 if draining else 200)

    async def check_rate(self, request: Request) -> None:
        """Count a request of a client's.

        Raises:
            RateLimitedError: It is one too many.
        """
        assert self._rates is not None
        self._rates.check(client_of(request.scope))

    async def metadata(self) -> Any:
        """Say what the environment is."""
        return self._about.completed(await self._sessions.metadata())

    async def schema(self) -> SchemaResponse:
        """Give the JSON Schemas of actions, observations and states."""
        types = self._sessions.types
        reset_observation = self._reset_observation
        return SchemaResponse(
            action=types.action.model_json_schema(),
            observation=types.observation.model_json_schema(),
            state=types.state.model_json_schema(),
            reset=self._sessions.reset_schema(),
            reset_observation=None if reset_observation is None else reset_observation.model_json_schema(),
        )

    async def reset(self, request: Request, body: ResetRequest | None = None) -> Response:
        """Start an episode. The answer names the session in a header and a cookie; send either back to continue it."""
        arguments = {} if body is None else body.model_dump(exclude_unset=True)
        session = self._named_session(request, cookie_may_be_stale=True) or await self._open(request)
        if session is not None:
            answer = _outcome_response(await session.reset(arguments), session.unknown_parameters(arguments))
            return _naming(answer, session)
        async with self._sessions.apart() as session:
            return _outcome_response(await session.reset(arguments), session.unknown_parameters(arguments))

    async def step(self, request: Request, body: StepRequest) -> Response:
        """Do one action, in the session that the request names or, without one, in a fresh environment."""
        options = body.model_dump(exclude={"action", "timeout_s"}, exclude_unset=True)
        own = body.model_extra or {}
        session = self._named_session(request)
        if session is not None:
            return _outcome_response(
                await session.step(body.action, options, body.timeout_s), session.unknown_options(own)
            )
        async with self._sessions.apart() as session:
            return _outcome_response(
                await session.step(body.action, options, body.timeout_s), session.unknown_options(own)
            )

    async def state(self, request: Request) -> Response:
        """Read the state of the session that the request names or, without one, of a fresh environment."""
        session = self._named_session(request)
        if session is not None:
            return _json(state_json(await session.state()))
        async with self._sessions.apart() as session:
            return _json(state_json(await session.state(_STATE_TIMEOUT_S)))

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

    async def _open(self, request: Request) -> Session | None:
        """Open a session for a client that named none; ``None`` where there is no place for it.

        Raises:
            ClientCapacityError: The client holds as many as it may.
            DrainingError: The server ends.
        """
        timeout_s = min(_UNCLAIMED_TIMEOUT_S, self._sessions.limits.idle_timeout_s or _UNCLAIMED_TIMEOUT_S)
        client = client_of(request.scope)
        try:
            return await self._sessions.open(
                client=client, idle_timeout_s=timeout_s, transport=Transport.HTTP, yielding=True
            )
        except (ClientCapacityError, DrainingError):
            raise
        except SessionCapacityError:
            return None


async def answer_request_error(request: Request, error: Exception, *, debug: bool = False) -> Response:
    """Answer a request that failed: FastAPI's own form for an invalid one, else the fields of an error frame."""
    assert isinstance(error, RequestError)
    if debug:
        add_traceback(error)
    _count(request, error.code)
    status = _STATUS_BY_CODE.get(error.code, 500)
    if isinstance(error, SessionNotFoundError):
        status = 404
    elif isinstance(error, ResetNeededError):
        status = 409
    told = error_data(error)
    message = told.pop("message")
    if isinstance(error, InvalidRequestError):
        return _json(error_json({"detail": told.get("errors", []), "code": error.code}), status)
    return _json(error_json({"detail": message, **told}), status, _retry_headers(error))


def _retry_headers(error: RequestError) -> dict[str, str] | None:
    """Say when to ask again, where that is all that a client need do."""
    if isinstance(error, RateLimitedError):
        return {"Retry-After": str(ceil(error.retry_after_s))}
    if isinstance(error, SessionCapacityError):
        return {"Retry-After": str(ceil(error.details.get("retry_after_s", _RETRY_AFTER_S)))}
    return None


async def answer_invalid_body(request: Request, error: Exception) -> Response:
    """Answer a body that does not fit, also where it holds what FastAPI's own answer cannot repeat, such as NaN."""
    assert isinstance(error, RequestValidationError)
    _count(request, _INVALID_BODY)
    return _json(error_json({"detail": error.errors()}), 422)


async def answer_large_body(request: Request, error: Exception) -> Response:
    """Answer a body that turned out too large while it was read."""
    assert isinstance(error, _BodyTooLargeError)
    return await answer_request_error(request, error.reason)


def _count(request: Request, code: str) -> None:
    if "app" in request.scope:  # it was answered here, and not by the worker that a call was handed on to
        metrics: Metrics = request.app.state.sessions.metrics
        metrics.errors[code] += 1


def add_error_handlers(app: FastAPI, *, debug: bool = False) -> None:
    """Have an application answer the errors of these routes.

    Args:
        app: The application.
        debug: Whether clients are told where an environment raised.
    """
    app.add_exception_handler(RequestError, partial(answer_request_error, debug=debug))
    app.add_exception_handler(RequestValidationError, answer_invalid_body)
    app.add_exception_handler(_BodyTooLargeError, answer_large_body)


class _BodyTooLargeError(HTTPException):
    """Carries the error through FastAPI, which takes any other one for broken JSON."""

    def __init__(self, reason: MessageTooLargeError | TooManyValuesError) -> None:
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
        self._marks = 0

    async def receive(self) -> Message:
        message = await self._receive()
        body = message.get("body", b"")
        self._received += len(body)
        if self._received > self._max_bytes:
            raise _BodyTooLargeError(MessageTooLargeError(self._received, self._max_bytes))
        self._marks += count_marks(body)
        try:
            check_marks(self._marks, self._max_bytes)
        except TooManyValuesError as error:
            raise _BodyTooLargeError(error) from None
        return message


def _outcome_response(outcome: Outcome, warning: str | None) -> Response:
    """Write an outcome as the public server does over HTTP: the reward as a float, the metadata always there."""
    if outcome.reward is not None:
        outcome.reward = float(outcome.reward)
    headers = None if warning is None else {WARNING_HEADER: _in_header(f"{warning} It was left out.")}
    return _json(outcome_json(outcome, always_metadata=True), headers=headers)


def _in_header(text: str) -> str:
    """Write a text with visible ASCII characters alone."""
    return text.encode("ascii", "backslashreplace").decode()


def _json(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(text, status, headers, media_type="application/json")


def _naming(response: Response, session: Session) -> Response:
    response.headers[SESSION_HEADER] = session.id
    response.set_cookie(SESSION_COOKIE, session.id, httponly=True, samesite="strict")
    return response
