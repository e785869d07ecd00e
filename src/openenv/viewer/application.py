"""Server that shows the folder of a run or an evaluation, or a file of traces, and has no environment."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from openenv.core.background_loop import background_loop
from openenv.core.env_server.access.guard import protect
from openenv.core.env_server.access.policy import AccessPolicy
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.web.page import PUBLIC_PATHS, PageConfig, page_routes
from openenv.core.env_server.web.views import static_view_routes
from openenv.core.exceptions import ConfigurationError
from openenv.traces.reading import TraceFile
from openenv.viewer.comparison.routes import comparison_routes
from openenv.viewer.episodes.routes import episode_routes
from openenv.viewer.html_file.document import MAX_BYTES, html_file
from openenv.viewer.html_file.routes import html_file_routes
from openenv.viewer.routes import trace_routes
from openenv.viewer.run_routes import run_routes
from openenv.viewer.source import Source
from openenv.viewer.views import installed_renderer, play_target

MAX_COMPARED = 4
"""Maximum number of sources that a page compares."""


def viewer_app(file: str | Path | None, run: Path | None = None, episodes: Path | None = None) -> Starlette:
    """Build the application that shows traces, and the folder of a run or an evaluation, to browsers.

    Args:
        file: The file of traces, or the address of a database; ``None`` for none.
        run: Folder of a training run, which may be under way; ``None`` for none.
        episodes: Folder of an evaluation or of collected episodes; ``None`` for none.

    Raises:
        ConfigurationError: There is no such file, or it has no traces; or nothing is given.
    """
    return source_app(Source("", file, run, episodes))


def source_app(source: Source) -> Starlette:
    """Build the application that shows a source to browsers of this machine, and to others with the server's token.

    Args:
        source: The source.

    Raises:
        ConfigurationError: There is no such file of traces; or there is nothing to show.
    """
    return _protected(_routes(source), PUBLIC_PATHS)


def comparison_app(sources: Sequence[Source]) -> Starlette:
    """Build the application that shows two to four sources beside each other, and each by itself.

    Args:
        sources: The sources; each is shown by itself below its number, from 1.

    Raises:
        ConfigurationError: There are fewer or more; there is no such file of traces; or there is nothing to show.
    """
    own = {f"/{number}{path}" for number, _ in enumerate(sources, 1) for path in PUBLIC_PATHS}
    return _protected(_comparing_routes(sources), PUBLIC_PATHS | own)


def save_page(sources: Sequence[Source], episodes: Sequence[str] = (), max_bytes: int = MAX_BYTES) -> bytes:
    """Return an HTML file of a source, or of two to four sources beside each other, which needs no server.

    Args:
        sources: The sources.
        episodes: Ids of one to four of its episodes, to show these alone; with several sources, each after the number
            of its source and a colon, as in ``2:1-17``. Empty for all, as far as they fit.
        max_bytes: Maximum size of the contents in bytes; the file lists what is left out for that.

    Raises:
        ConfigurationError: There is nothing to show, no such episode, or too many of them.
    """
    if len(episodes) > MAX_COMPARED:
        raise ConfigurationError(f"Expected up to {MAX_COMPARED} episodes beside each other, got {len(episodes)}.")
    is_alone = len(sources) == 1
    routes = _routes(sources[0]) if is_alone else _comparing_routes(sources)
    page: str = sources[0].view if is_alone else "compare"
    if episodes:
        others = {"with": ",".join(episodes[1:])} if episodes[1:] else {}
        page = f"traces?{urlencode({'episode': episodes[0], **others})}"
    return background_loop().run(html_file(routes, page, max_bytes))


def _comparing_routes(sources: Sequence[Source]) -> list[BaseRoute]:
    if not 2 <= len(sources) <= MAX_COMPARED:
        raise ConfigurationError(f"Expected 2 to {MAX_COMPARED} paths to compare, got {len(sources)}.")
    routes: list[BaseRoute] = [Route("/", partial(_to_page, "compare"))]
    routes += page_routes(PageConfig(compare=tuple(source.name for source in sources)))
    routes += comparison_routes(sources)
    routes += [Mount(f"/{number}", routes=_routes(source, beside=True)) for number, source in enumerate(sources, 1)]
    return [*routes, *html_file_routes(routes)]


def _protected(routes: list[BaseRoute], open_pages: frozenset[str]) -> Starlette:
    app = Starlette(routes=routes)
    protect(app, replace(AccessPolicy.of(ServerConfig.read()), open_pages=open_pages))
    return app


def _routes(source: Source, *, beside: bool = False) -> list[BaseRoute]:
    if source == Source(source.name):
        raise ConfigurationError("Expected a file of traces, or the folder of a training run or an evaluation.")
    routes: list[BaseRoute] = [Route("/", partial(_to_page, source.view))]
    config = PageConfig(
        traces=source.traces is not None,
        run=source.run is not None,
        results=source.episodes is not None,
        beside=beside,
        views=source.traces is not None,
    )
    routes += page_routes(config)
    if source.traces is not None:
        if source.view == "traces":
            TraceFile(source.traces).close()
        routes += trace_routes(source.traces, target_of=play_target)
        routes += static_view_routes(installed_renderer)
    if source.run is not None:
        routes += run_routes(source.run, source.traces)
    if source.episodes is not None:
        routes += episode_routes(source.episodes)
    return [*routes, *html_file_routes(routes)]


async def _to_page(view: str, request: Request) -> Response:
    return RedirectResponse(f"{request.scope.get('root_path', '')}/web/{view}", 307)
