"""Routes of the page: its HTML, which is the same on every server, and the files that it loads.

These hold nothing of an environment, so that a browser can load them without a token. What the page then shows it reads
from the server's other routes and plays over ``/ws``, under the rules for every client; ``/web/config`` says what there
is to show.
"""

import gzip
import hashlib
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from openenv.core.env_server.pages.docs import FRAMES
from openenv.core.env_server.pages.start import shows_pages

PAGE = "/web"
VIEWS = ("", "api", "compare", "live", "results", "run", "traces")
"""Paths below the page's own; all of them are the same HTML, whose script shows the view."""

_FILES = (
    "about.js",
    "ansi.js",
    "api.js",
    "app.js",
    "chart.js",
    "compare.js",
    "connection.js",
    "entry.js",
    "fields.js",
    "follow.js",
    "form.js",
    "game.js",
    "html.js",
    "http-api.js",
    "json.js",
    "live.js",
    "markdown.js",
    "observation.js",
    "pixels.js",
    "play.js",
    "print.css",
    "printed.js",
    "progress.js",
    "results.js",
    "retry.js",
    "rollout.js",
    "run.js",
    "saved.js",
    "schema.js",
    "snippets.js",
    "start.js",
    "style.css",
    "traces/address.js",
    "traces/beside.js",
    "traces/curve.js",
    "traces/episodes.js",
    "traces/filters.js",
    "traces/grid.js",
    "traces/label.js",
    "traces/list.js",
    "traces/neighbours.js",
    "traces/save.js",
    "traces/source.js",
    "traces/thread.js",
    "traces/tokens.js",
    "traces/view.js",
    "turns.js",
    "vendor/hooks.mjs",
    "vendor/htm.mjs",
    "vendor/preact.mjs",
    "view.js",
    "windowed.js",
)
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
}
_NOT_FOUND = {"detail": "Not Found"}

PUBLIC_PATHS = frozenset({*(f"{PAGE}/{view}" for view in VIEWS), *(f"{PAGE}/static/{name}" for name in _FILES), PAGE})
"""Paths that hold nothing of an environment, and are the same on every server."""

_HEADERS = {
    # An environment's HTML is in a frame, which inherits this policy and has styles of its own; scripts are the page's.
    # The only frame that has an address is that of the API's page.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    f"img-src data: blob:; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; {FRAMES}",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@dataclass
class PageConfig:
    """What a server has for the page.

    Attributes:
        name: Name of the environment, in the paths of its tasks; ``None`` without an environment.
        play: Whether a person may play: reset and step.
        tools: Whether the environment may have tools, which a session then lists.
        live: Whether its sessions may be watched.
        traces: Whether episodes are on record.
        run: Whether there is the folder of a training run.
        custom: Name of the page that the environment's ``gradio_builder`` makes; ``None`` without one.
        results: Whether there is the folder of an evaluation, or of collected episodes.
        compare: Names of what is compared; empty where nothing is.
        beside: Whether this is one of several that are compared, two paths above.
        views: Whether observations are shown without a session, see ``static_view_routes``.
    """

    name: str | None = None
    play: bool = False
    tools: bool = False
    live: bool = False
    traces: bool = False
    run: bool = False
    custom: str | None = None
    results: bool = False
    compare: tuple[str, ...] = ()
    beside: bool = False
    views: bool = False


def page_routes(config: PageConfig) -> list[BaseRoute]:
    """Return the routes of the page.

    Args:
        config: What the server has for the page, at the time of each request.
    """
    return [*view_routes(), Route(f"{PAGE}/config", _Config(config), include_in_schema=False)]


def view_routes() -> list[BaseRoute]:
    """Return the routes of what is the same on every server: the page's HTML and the files that it loads."""
    page = Route(PAGE, _redirect, include_in_schema=False)
    views = [Route(f"{PAGE}/{view}", _page, include_in_schema=False) for view in VIEWS]
    return [page, *views, Route(f"{PAGE}/static/{{name:path}}", _static, include_in_schema=False)]


def static_text(name: str) -> str:
    """Return the text of a file that the page loads, or of ``index.html``."""
    return _content(name).plain.decode()


class _Config:
    """ASGI application that answers with what the server has for the page."""

    def __init__(self, config: PageConfig) -> None:
        self._config = config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await JSONResponse(asdict(self._config))(scope, receive, send)


async def _redirect(request: Request) -> Response:
    if not shows_pages():
        return JSONResponse(_NOT_FOUND, 404)
    return RedirectResponse(f"{request.scope.get('root_path', '')}{PAGE}/", 307)


async def _page(request: Request) -> Response:
    return _file("index.html", request) if shows_pages() else JSONResponse(_NOT_FOUND, 404)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    return _file(name, request) if name in _FILES else JSONResponse(_NOT_FOUND, 404)


def _file(name: str, request: Request) -> Response:
    file = _content(name)
    headers = {**_HEADERS, "ETag": file.tag, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    body = file.plain
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        body = file.compressed
    return Response(body, headers=headers, media_type=_TYPES.get(PurePosixPath(name).suffix, "text/html"))


@dataclass(frozen=True)
class _File:
    plain: bytes
    compressed: bytes
    tag: str


@cache
def _content(name: str) -> _File:
    plain = files(__package__).joinpath("static", *name.split("/")).read_bytes()
    return _File(plain, gzip.compress(plain, 9, mtime=0), f'"{hashlib.sha256(plain).hexdigest()[:32]}"')
