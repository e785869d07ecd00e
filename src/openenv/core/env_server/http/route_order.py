"""Order of an application's routes: an author's own come before those that only servers of this package have."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Match, Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from openenv.core.env_server.access.guard import AccessMiddleware
from openenv.core.env_server.access.policy import policy_of
from openenv.core.env_server.pages.start import path_of

PUBLIC_PATHS = frozenset({"/health", "/metadata", "/schema", "/state", "/reset", "/step", "/mcp", "/ws"})
"""Paths that each server of the public package has. Programs rely on them, so that their routes stay first."""


class AuthorsRoutesFirst:
    """ASGI middleware that keeps some routes behind those that an author has added, whenever these were added.

    Routes that match every path, such as static files at the root, stay behind all: they are for what has no route.
    An author's page with the path of one that browsers may load without a token is guarded as all others.

    Args:
        app: The application behind it.
        owner: The application that has the routes, and the access policy in its state.
        last: The routes to keep behind.
    """

    def __init__(self, app: ASGIApp, owner: Starlette, last: Sequence[BaseRoute]) -> None:
        self._app = app
        self._owner = owner
        self._last = last
        self._ordered = 0  # routes when they were put in order
        self._guarded = app
        self._replaced: frozenset[str] = frozenset()  # paths of open pages that the author has replaced

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Put the routes in order if there are others than before, and pass a request on."""
        if len(self._owner.router.routes) != self._ordered:
            self._put_in_order()
        replaced = self._replaced and scope["type"] == "http" and path_of(scope) in self._replaced
        await (self._guarded if replaced else self._app)(scope, receive, send)

    def _put_in_order(self) -> None:
        routes, last = self._owner.router.routes, {id(route) for route in self._last}
        others = [route for route in routes if id(route) not in last]
        end = next((index for index, route in enumerate(others) if _matches(route, f"/{uuid4()}")), len(others))
        # What is mounted at a path answers there with a slash, to which Starlette redirects where no route is.
        mounted = {route.path for route in others if isinstance(route, Mount)}
        last_of_all = [route for route in self._last if getattr(route, "path", None) not in mounted]
        routes[:] = [*others[:end], *last_of_all, *others[end:]]
        self._ordered = len(routes)
        access = policy_of(self._owner)
        replaceable = {path for path in access.open_pages if any(_matches(route, path) for route in self._last)}
        self._replaced = frozenset(path for path in replaceable if any(_matches(each, path) for each in others[:end]))
        self._guarded = AccessMiddleware(self._app, replace(access, open_pages=frozenset()))


def _matches(route: BaseRoute, path: str) -> bool:
    """Return whether a route answers reads of a path."""
    scope = {"type": "http", "method": "GET", "path": path, "root_path": "", "headers": [], "query_string": b""}
    return route.matches(scope)[0] is Match.FULL
