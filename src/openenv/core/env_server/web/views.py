"""HTML of an observation without its session: of an environment whose ``render_web`` is a static method."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from openenv.core.env_server.execution.local_runner import render_alone
from openenv.core.exceptions import RequestError

Renderer = Callable[[dict[str, Any]], Any]

_PATH = "/web/view"
_MOST_BYTES = 4 * 1024 * 1024
_TIMEOUT_S = 60.0
"""Time limit of a view, the first of which imports the environment."""


class _ViewRequest(BaseModel):
    """Body of a request.

    Attributes:
        environment: Name of the environment that the observation is of.
        observation: The observation as JSON, with ``reward`` and ``done``.
    """

    model_config = ConfigDict(extra="forbid")

    environment: str
    observation: dict[str, Any]


def static_renderer(environment: type | None) -> Renderer | None:
    """Return an environment's ``render_web``; ``None`` where it needs an instance, which has an episode."""
    found = inspect.getattr_static(environment, "render_web", None)
    return found.__func__ if isinstance(found, staticmethod) else None


def static_view_routes(renderer_of: Callable[[str], Renderer | None]) -> list[BaseRoute]:
    """Return the route that shows observations on record, and of sessions that are followed.

    Args:
        renderer_of: Returns the renderer of an environment by its name; called in a thread.
    """
    return [Route(_PATH, _View(renderer_of).answer, methods=["POST"], include_in_schema=False)]


async def read_body(request: Request, max_bytes: int) -> bytes | None:
    """Read the body of a request; return ``None`` for a larger one, of which no more is read."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > max_bytes:
            return None
    return body


class _View:
    def __init__(self, renderer_of: Callable[[str], Renderer | None]) -> None:
        self._renderer_of = renderer_of

    async def answer(self, request: Request) -> Response:
        """Answer with ``html``, which is ``null`` without a renderer, or with the ``problem`` that it had."""
        body = await read_body(request, _MOST_BYTES)
        if body is None:
            return JSONResponse({"detail": f"Expected at most {_MOST_BYTES} bytes."}, 413)
        try:
            wanted = _ViewRequest.model_validate_json(body)
        except ValidationError as error:
            return JSONResponse({"detail": str(error)}, 422)
        try:
            renderer_of = partial(self._renderer_of, wanted.environment)
            view = await render_alone(renderer_of, wanted.observation, _TIMEOUT_S)
        except RequestError as error:
            return JSONResponse({"problem": error.message})
        return JSONResponse({"html": view.html})
