"""Server that shows a file of traces or the folder of a run, and has no environment."""

from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from openenv.core.env_server.access.guard import protect
from openenv.core.env_server.access.policy import AccessPolicy
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.web.page import PUBLIC_PATHS, PageConfig, page_routes
from openenv.core.exceptions import ConfigurationError
from openenv.traces.reading import TraceFile
from openenv.viewer.routes import trace_routes
from openenv.viewer.run_routes import run_routes

_USUAL = "traces.db"


def find_traces(location: str | Path) -> str | Path:
    """Return the file of traces: the path itself, or in a folder ``traces.db`` or the only ``.db`` below it.

    Args:
        location: A file or a folder, such as that of a run, or the address of a database.

    Raises:
        ConfigurationError: There is none, or there are several.
    """
    path = Path(location)
    if not path.is_dir():
        return location
    usual = path / _USUAL
    found = [usual] if usual.is_file() else sorted(path.rglob("*.db"))
    if len(found) != 1:
        names = ", ".join(str(file) for file in found[:5]) or "none"
        raise ConfigurationError(f"Expected one file of traces in {path}, found {names}. Name the file.")
    return found[0]


def viewer_app(file: str | Path | None, run: Path | None = None) -> Starlette:
    """Build the application that shows traces, or the folder of a run, to browsers of this machine.

    Args:
        file: The file of traces, or the address of a database; ``None`` for none.
        run: Folder of a training run, which may be under way; ``None`` for none.

    Raises:
        ConfigurationError: There is no such file, or it has no traces; or neither is given.
    """
    if file is None and run is None:
        raise ConfigurationError("Expected a file of traces, or the folder of a training run.")
    routes: list[BaseRoute] = [Route("/", partial(_to_page, "traces" if run is None else "run"))]
    routes += page_routes(PageConfig(traces=file is not None, run=run is not None))
    if file is not None:
        TraceFile(file).close()
        routes += trace_routes(file)
    if run is not None:
        routes += run_routes(run, file)
    app = Starlette(routes=routes)
    protect(app, AccessPolicy(token=ServerConfig.read().token, open_pages=PUBLIC_PATHS))
    return app


async def _to_page(view: str, request: Request) -> Response:
    return RedirectResponse(f"{request.scope.get('root_path', '')}/web/{view}", 307)
