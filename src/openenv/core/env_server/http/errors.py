"""Errors over HTTP: the status and the body of each, and the limit of a request's body."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from functools import cache, partial
from math import ceil
from typing import Any

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.exception_handlers import request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openenv.core.env_server.metrics import Metrics
from openenv.core.exceptions import (
    ErrorCode,
    ForkError,
    InvalidRequestError,
    MessageTooLargeError,
    RateLimitedError,
    RequestError,
    ResetNeededError,
    SessionCapacityError,
    SessionNotFoundError,
    TooManyValuesError,
)
from openenv.core.wire.bounded_json import LONG_MESSAGE, check_marks, count_marks, without_collection
from openenv.core.wire.errors import error_data, error_json
from openenv.core.wire.redaction import add_traceback
from openenv.core.wire.types import ErrorResponse

_STATUS_BY_CODE = {code.value: code.http_status for code in ErrorCode}
# Errors that share their code with others.
_STATUS_BY_CLASS: Mapping[type[RequestError], int] = {
    SessionNotFoundError: 404,
    ResetNeededError: 409,
    ForkError: 409,
}

_MEANINGS = {
    400: "The body is no text.",
    401: "A token is needed, or another one.",
    403: "The request comes from another site, or names another host.",
    404: "The session that it names has ended.",
    409: "No episode has been started, or it has ended; reset it.",
    413: "The body is too long.",
    429: "More requests than a client may send.",
    500: "The environment failed.",
    503: "The server is shutting down, or it or this client has as many sessions as it may have; try again later.",
    504: "The environment took too long.",
}

# Seconds after which a client may try again when the server was full.
_RETRY_AFTER_S = 1.0


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of error responses for the OpenAPI document."""
    return {status: {"model": ErrorResponse, "description": _MEANINGS[status]} for status in statuses}


class DescribedRoute(APIRoute):
    """Route whose error responses share the fields that describe them in the OpenAPI document.

    FastAPI makes a validator for each response of each route, though it validates the answer to a success alone. A
    server has more than a hundred errors to describe, of two models.

    Args:
        path: Path of the route.
        endpoint: Answers its requests.
        responses: Descriptions of further responses, by status.
        **settings: As for ``APIRoute``.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        responses: dict[int | str, dict[str, Any]] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(path, endpoint, **settings)
        self.responses = responses or {}
        described = {status: each["model"] for status, each in self.responses.items() if "model" in each}
        self.response_fields = {status: _response_field(model) for status, model in described.items()}

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request, whose body is read as a message is."""
        return partial(_answer_bounded, super().get_route_handler())


class _BoundedRequest(Request):
    """Request whose long JSON is read as quickly as that of a long message."""

    async def json(self) -> Any:
        """Return the body's value."""
        if len(await self.body()) <= LONG_MESSAGE:
            return await super().json()
        await asyncio.sleep(0)  # the marks have been counted in this turn of the event loop
        with without_collection():
            return json.loads(await self.body())


async def _answer_bounded(answer: Callable[[Request], Coroutine[Any, Any, Response]], request: Request) -> Response:
    return await answer(_BoundedRequest(request.scope, request.receive))


@cache
def _response_field(model: type[BaseModel]) -> Any:
    """Have FastAPI make the field of a model."""
    return APIRoute("/", lambda: None, responses={500: {"model": model}}).response_fields[500]


# The attribute is none that FastAPI documents. Without it, each route makes its own fields again.
_ROUTE_CLASS: type[APIRoute] = DescribedRoute if hasattr(APIRoute("/", lambda: None), "response_fields") else APIRoute


def guarded(**settings: Any) -> APIRouter:
    """Return a router for routes behind the server's guard, which denies requests before they reach a route."""
    responses = refusals(401, 403) | settings.get("responses", {})
    return APIRouter(**{**settings, "responses": responses, "route_class": _ROUTE_CLASS})


async def answer_request_error(request: Request, error: Exception, *, debug: bool = False) -> Response:
    """Answer a failed request: in FastAPI's own form for an invalid request, else with the fields of an error frame."""
    assert isinstance(error, RequestError)
    if debug:
        add_traceback(error)
    _count(request, error.code)
    status = status_of(error)
    data = error_data(error)
    message = data.pop("message")
    if isinstance(error, InvalidRequestError):
        return json_response(error_json({"detail": data.get("errors", []), "code": error.code}), status)
    return json_response(error_json({"detail": message, **data}), status, _retry_headers(error))


def status_of(error: RequestError) -> int:
    """Return the HTTP status of an error."""
    by_class = (status for error_class, status in _STATUS_BY_CLASS.items() if isinstance(error, error_class))
    return next(by_class, _STATUS_BY_CODE.get(error.code, 500))


def _retry_headers(error: RequestError) -> dict[str, str] | None:
    """Return ``Retry-After`` for errors that a retry can resolve."""
    if isinstance(error, RateLimitedError | SessionCapacityError):
        return {"Retry-After": str(ceil(error.details.get("retry_after_s", _RETRY_AFTER_S)))}
    return None


async def answer_invalid_body(request: Request, error: Exception) -> Response:
    """Answer an invalid body, even if it holds values that FastAPI's own answer cannot quote, such as NaN."""
    assert isinstance(error, RequestValidationError)
    _count(request, ErrorCode.VALIDATION_ERROR)
    return json_response(error_json({"detail": error.errors()}), 422)


async def answer_large_body(request: Request, error: Exception) -> Response:
    """Answer a body that exceeded a limit while it was read."""
    assert isinstance(error, _BodyTooLargeError)
    return await answer_request_error(request, error.reason)


def _count(request: Request, code: str) -> None:
    if "app" in request.scope:  # a request that was forwarded to another worker has none
        metrics: Metrics = request.app.state.openenv_sessions.metrics
        metrics.errors[code] += 1


def add_error_handlers(app: FastAPI, *, debug: bool = False) -> None:
    """Add handlers for request errors to an application; a handler of its author stays.

    Args:
        app: The application.
        debug: Whether answers include where an environment raised.
    """
    app.add_exception_handler(RequestError, partial(answer_request_error, debug=debug))
    if app.exception_handlers.get(RequestValidationError) is request_validation_exception_handler:
        app.add_exception_handler(RequestValidationError, answer_invalid_body)
    app.add_exception_handler(_BodyTooLargeError, answer_large_body)


class _BodyTooLargeError(HTTPException):
    """Error of a large body as an ``HTTPException``: FastAPI answers any other exception as invalid JSON."""

    def __init__(self, reason: MessageTooLargeError | TooManyValuesError) -> None:
        self.reason = reason
        super().__init__(413)


class BodyLimit:
    """ASGI middleware that rejects a request body above a limit, by its declared length or as it arrives.

    FastAPI's own ``max_body_size`` answers in plain text; clients of this server expect a code.

    Args:
        app: The application behind it.
        max_bytes: The limit in bytes.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or reject it."""
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
    """Body of a request whose bytes are counted as they are received."""

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


def json_response(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response whose body is already JSON."""
    return Response(text, status, headers, media_type="application/json")
