"""HTML of an observation without its session: of an environment whose ``render_web`` is a static method."""

import inspect
import logging
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

logger = logging.getLogger(__name__)

Renderer = Callable[[dict[str, Any]], Any]

_PATH = "/web/view"
_MOST_BYTES = 4 * 1024 * 1024


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


class _View:
    def __init__(self, renderer_of: Callable[[str], Renderer | None]) -> None:
        self._renderer_of = renderer_of

    async def answer(self, request: Request) -> Response:
        """Answer with ``html``, which is ``null`` without a renderer, or with the ``problem`` that it had."""
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MOST_BYTES:
                return JSONResponse({"detail": f"Expected at most {_MOST_BYTES} bytes."}, 413)
        try:
            asked = _ViewRequest.model_validate_json(body)
        except ValidationError as error:
            return JSONResponse({"detail": str(error)}, 422)
        return JSONResponse(await run_in_threadpool(self._render, asked))

    def _render(self, asked: _ViewRequest) -> dict[str, Any]:
        try:
            renderer = self._renderer_of(asked.environment)
            html = None if renderer is None else renderer(asked.observation)
        except Exception as error:  # of the environment's own code, as in a step
            logger.warning("render_web of %s failed", asked.environment, exc_info=True)
            return {"problem": f"{type(error).__name__}: {error}"}
        if html is not None and not isinstance(html, str):
            return {"problem": f"Expected render_web() to return HTML or None, got {type(html).__name__}."}
        return {"html": html}
