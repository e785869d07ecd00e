"""Pages ``/docs`` and ``/redoc``: the API's description, which loads nothing from other sites.

The pages hold nothing of the environment and no secret, so that a browser can load them without a token from a server
that requires one. They ask for the token and fetch ``/openapi.json`` with it.
"""

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from openenv.core.exceptions import ConfigurationError

_SWAGGER, _REDOC = "swagger", "redoc"
_PAGES = {"/docs": _SWAGGER, "/redoc": _REDOC}
_SCRIPTS = {_SWAGGER: "swagger-ui-bundle.js", _REDOC: "redoc.standalone.js"}
# The files of both libraries come from a package that is updated with them.
_LIBRARY = "fastapi_offline"
_OF_LIBRARY = ("swagger-ui-bundle.js", "swagger-ui.css", "redoc.standalone.js")
_OWN = ("docs.js", "docs.css")
_TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
_ASSETS = "/docs/"
# The only file that Redoc would load from another site.
_LOGO = b"https://cdn.redoc.ly/redoc/logo-mini.svg"
_NO_LOGO = b"data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA="

PUBLIC_PATHS = frozenset({*_PAGES, *(f"{_ASSETS}{name}" for name in (*_OWN, *_OF_LIBRARY))})
"""Paths that hold nothing of an environment, and are the same on every server."""

FRAMES = "frame-ancestors 'self' https://huggingface.co"
"""Sites that may embed the pages: the Hub embeds a Space."""

_HEADERS = {
    # Both libraries set styles on elements, and draw small images; Redoc searches in a worker.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; "
    f"{FRAMES}",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

_HTML = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/docs.css">
{style}</head>
<body data-shows="{library}">
<noscript>This page needs JavaScript. The description itself is at <a href="openapi.json">openapi.json</a>.</noscript>
<form id="ask" hidden>
<p><label for="token">This server needs a token to show its API:</label></p>
<input id="token" type="password" autocomplete="off" required>
<button class="show" type="submit">Show the API</button>
<p id="problem" role="alert"></p>
</form>
<div id="description"></div>
<script src="docs/{script}"></script>
<script src="docs/docs.js"></script>
</body>
</html>
"""
_STYLE = '<link rel="stylesheet" href="docs/swagger-ui.css">\n'


def docs_routes() -> list[Route]:
    """Return the routes of the pages and of the files that they load."""
    pages = [Route(path, _page, include_in_schema=False) for path in _PAGES]
    return [*pages, Route(f"{_ASSETS}{{name}}", _asset, include_in_schema=False)]


async def _page(request: Request) -> Response:
    library = _PAGES[request.scope["path"].removeprefix(request.scope.get("root_path", ""))]
    style = _STYLE if library == _SWAGGER else ""
    html = _HTML.format(library=library, style=style, script=_SCRIPTS[library])
    return Response(html, headers=_HEADERS, media_type="text/html")


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _OWN + _OF_LIBRARY:
        return Response('{"detail":"Not Found"}', 404, media_type="application/json")
    headers = {**_HEADERS, "Cache-Control": "public, max-age=3600"}
    return Response(_content(name), headers=headers, media_type=_TYPES[name.rpartition(".")[2]])


@cache
def _content(name: str) -> bytes:
    return _folder(name).joinpath(name).read_bytes().replace(_LOGO, _NO_LOGO)


def _folder(name: str) -> Traversable:
    if name in _OWN:
        return files(__package__)
    try:
        return files(_LIBRARY) / "static"
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "The pages /docs and /redoc need fastapi-offline: pip install fastapi-offline"
        ) from error
