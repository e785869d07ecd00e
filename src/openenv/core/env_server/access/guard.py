"""Guard before an application: it passes on the requests that the ``AccessPolicy`` allows, and answers all others.

``AccessMiddleware`` sees every request before the application does, HTTP and WebSocket alike.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace

from starlette.applications import Starlette
from starlette.datastructures import State
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from openenv.core.env_server.access.peer import TOKEN_NAME
from openenv.core.env_server.access.policy import AccessPolicy, Denial, new_token, policy_of
from openenv.core.env_server.pages.start import locked_page, wants_page
from openenv.core.exceptions import UnauthorizedError
from openenv.core.wire.errors import error_json
from openenv.core.wire.names import AGENT_HEADER, AUTH_NONE, AUTH_VARIABLE, SESSION_HEADER
from openenv.core.wire.redaction import HiddenCredentials

logger = logging.getLogger(__name__)

# Seconds for a denied handshake to end.
_CLOSE_TIMEOUT_S = 1.0
_HIDDEN_CREDENTIALS = HiddenCredentials()
# Loggers of the ASGI server that write addresses, headers and tracebacks of requests.
_LOGGERS = ("uvicorn.error", "uvicorn.access", "uvicorn.asgi")


class AccessMiddleware:
    """ASGI middleware that passes on the requests that the policy allows, and answers the others itself.

    Args:
        app: The application behind it.
        access: The policy.
    """

    def __init__(self, app: ASGIApp, access: AccessPolicy) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or deny it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        denial = self._access.denial(scope)
        if denial is None:
            token, uses = self._access.named_token(scope), self._access.token_uses
            if token is None or uses is None:
                await self._app(scope, receive, send)
            else:
                await uses.serve(token, self._app, {**scope, TOKEN_NAME: token.name}, receive, send)
            return
        logger.info("refused a request from %s: %s", scope.get("client"), denial.detail)
        try:
            if denial.status == 401 and self._access.open_pages and wants_page(scope):
                await locked_page()(scope, receive, send)
            else:
                await _answer(denial, scope, receive, send)
        except OSError as error:  # ASGI servers raise it on sending to a client that has disconnected
            logger.debug("a client disconnected before its request was denied: %s", error)


def guarded(app: ASGIApp, access: AccessPolicy) -> ASGIApp:
    """Return an application with the guard before it, and CORS before the guard.

    A browser sends its CORS preflight without a token, and shows a denial to a page only where CORS allows that.
    """
    guard = AccessMiddleware(app, access)
    if not access.origins:
        return guard
    every = ["*"]
    return CORSMiddleware(
        guard,
        allow_origins=[str(origin) for origin in access.origins],
        allow_methods=every,
        allow_headers=every,
        expose_headers=[SESSION_HEADER, AGENT_HEADER],
    )


def protect(app: Starlette, access: AccessPolicy) -> None:
    """Add the guard to an application, and warn in the log if the application requires no token.

    Args:
        app: The application; its state gets the policy, for its workers, which forward requests before the guard.
        access: The policy.
    """
    app.state.openenv_access = access
    app.add_middleware(_guarded_by_state, state=app.state)
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_HIDDEN_CREDENTIALS)
    if not access.requires_token:
        logger.warning(
            "%s=%s: everybody who can reach this server can use it; no token is required.", AUTH_VARIABLE, AUTH_NONE
        )


def make_missing_token(app: Starlette) -> str | None:
    """Make a token for an application that would deny everybody for lack of one; call it before the first request.

    Args:
        app: The application.

    Returns:
        The token that clients need, whether it was made or was there; ``None`` where those on this machine need none.
    """
    access = policy_of(app)
    if access.requires_token and access.token is None and not access.trusts_this_machine:
        access = app.state.openenv_access = replace(access, token=new_token())
    return None if access.trusts_this_machine else access.token


def _guarded_by_state(app: ASGIApp, state: State) -> ASGIApp:
    """Return an application with its guard. Starlette calls this with the first request, so the policy is final."""
    return guarded(app, state.openenv_access)


async def _answer(denial: Denial, scope: Scope, receive: Receive, send: Send) -> None:
    body = error_json({"detail": denial.detail, "code": UnauthorizedError.code})
    headers = {"WWW-Authenticate": "Bearer"} if denial.status == 401 else None
    response = Response(body, denial.status, headers, media_type="application/json")
    if scope["type"] == "http":
        await response(scope, receive, send)
    else:
        await answer_handshake(response, scope, receive, send)


async def answer_handshake(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer the handshake of a WebSocket with an HTTP response, instead of accepting it.

    Args:
        response: The response.
        scope: ASGI's description of the handshake.
        receive: The socket's ``receive``.
        send: The socket's ``send``.
    """
    await receive()  # websocket.connect
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close"})  # the server answers 403
        return
    await response(scope, receive, send)
    # uvicorn logs an error where a call returns before the connection is closed. It sends a disconnect event twice:
    # when the connection begins to close, and when it is closed.
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await receive()
            await receive()
