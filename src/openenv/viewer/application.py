"""Server that shows a file of traces, and has no environment."""

from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from openenv.core.env_server.access.guard import protect
from openenv.core.env_server.access.policy import AccessPolicy
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.web.page import PUBLIC_PATHS, PageConfig, page_routes
from openenv.core.exceptions import ConfigurationError
from openenv.traces.reading import TraceFile
from openenv.viewer.routes import trace_routes

_USUAL = "traces.db"


def find_traces(path: Path) -> Path:
    """Return the file of traces: the path itself, or in a folder ``traces.db`` or the only ``.db`` below it.

    Args:
        path: A file or a folder, such as that of a run.

    Raises:
        ConfigurationError: There is none, or there are several.
    """
    if not path.is_dir():
        return path
    usual = path / _USUAL
    found = [usual] if usual.is_file() else sorted(path.rglob("*.db"))
    if len(found) != 1:
        names = ", ".join(str(file) for file in found[:5]) or "none"
        raise ConfigurationError(f"Expected one file of traces in {path}, found {names}. Name the file.")
    return found[0]


def viewer_app(file: Path) -> Starlette:
    """Build the application that shows a file of traces to browsers of this machine.

    Args:
        file: The file.

    Raises:
        ConfigurationError: There is no such file, or it has no traces.
    """
    TraceFile(file).close()
    routes = [Route("/", _to_page), *page_routes(PageConfig(traces=True)), *trace_routes(file)]
    app = Starlette(routes=routes)
    protect(app, AccessPolicy(token=ServerConfig.read().token, open_pages=PUBLIC_PATHS))
    return app


async def _to_page(request: Request) -> Response:
    return RedirectResponse(f"{request.scope.get('root_path', '')}/web/traces", 307)
