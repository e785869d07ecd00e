"""Start page at ``/`` for people who open a server's address in a browser: the environment, and links.

Other clients get 404, unless the application has a route of its own there. The page has no script and loads nothing.
"""

import hashlib
import os
from base64 import b64encode
from collections.abc import Mapping
from html import escape
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from openenv._version import __version__
from openenv.core.env_server.pages.docs import FRAMES
from openenv.core.env_server.sessions.about import About

WEB_VARIABLE = "ENABLE_WEB_INTERFACE"
"""Environment variable that disables the pages: ``false``, ``no`` or ``0``. With ``true``, ``yes`` or ``1``, the path
``/`` leads to the page at ``/web/``."""

_OFF = ("false", "no", "0")
_ON = ("true", "yes", "1")
_WEB = "/web/"
_ROOT = "/"

_STYLE = """
body { max-width: 44rem; margin: 3rem auto; padding: 0 1rem; font: 1rem/1.6 system-ui, sans-serif; color: #1c1e21; }
h1 { margin-bottom: .25rem; } p.what { font-size: 1.15rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1.25rem; }
dt { font-weight: 600; } dd { margin: 0; }
code { padding: .1rem .3rem; border-radius: .25rem; background: #f1f2f4; overflow-wrap: anywhere; }
footer { margin-top: 2rem; color: #5c6370; font-size: .9rem; }
@media (prefers-color-scheme: dark) {
  body { color: #e4e6eb; background: #18191a; } a { color: #8ab4f8; } code { background: #2c2e31; }
}
"""
_STYLE_HASH = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:; "
    f"base-uri 'none'; form-action 'none'; {FRAMES}",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept",
}

_HTML = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
{body}
<footer>OpenEnv {version}</footer>
</body>
</html>
"""

_BODY = """<h1>{title}</h1>
<p class="what">{description}</p>
<p>This is the server of an environment: programs and agents play in it.</p>
<dl>
<dt>Play it</dt><dd><a href="web/">here</a>, or <code>openenv play {url}</code></dd>
<dt>From Python</dt><dd><code>openenv.make(&quot;{url}&quot;)</code></dd>
<dt>Agents (MCP)</dt><dd><code>{url}/mcp</code></dd>
<dt>WebSocket</dt><dd><code>{socket}/ws</code></dd>
<dt>API</dt><dd><a href="docs">docs</a>, <a href="redoc">redoc</a>, <a href="openapi.json">openapi.json</a></dd>
<dt>What it is</dt><dd><a href="metadata">metadata</a>, <a href="schema">schema</a></dd>
<dt>How it is</dt><dd><a href="health">health</a>, <a href="ready">ready</a>, <a href="metrics">metrics</a></dd>
</dl>"""

_LOCKED = """<h1>An environment</h1>
<p>This is the server of an OpenEnv environment, and it needs a token.</p>
<p>Programs send it as <code>Authorization: Bearer TOKEN</code>; <code>openenv</code> takes it from the variable
<code>OPENENV_TOKEN</code>. The <a href="web/">page to play on</a> and the <a href="docs">description of the API</a> ask
for it.</p>"""


class StartPage:
    """ASGI application for paths without a route: a browser gets the start page, others the previous answer.

    Args:
        about: Description of the environment.
        otherwise: The application that answers all other requests.

    Attributes:
        title: Title of the page; by default the environment's name.
        leads_to_web: Whether ``/`` leads to the page at ``/web/``, as it does with ``ENABLE_WEB_INTERFACE=true``.
        web: Path of that page.
    """

    def __init__(self, about: About, otherwise: ASGIApp) -> None:
        self.title: str | None = None
        self.leads_to_web = False
        self.web = _WEB
        self._about = about
        self._otherwise = otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        response: ASGIApp = self._otherwise
        if _is_read_of_root(scope) and (enables_web() or (self.leads_to_web and shows_pages())):
            response = RedirectResponse(f"{scope.get('root_path', '')}{self.web}", 307)
        elif wants_page(scope):
            response = await self._page(Request(scope))
        await response(scope, receive, send)

    async def _page(self, request: Request) -> Response:
        about = await self._about.metadata()
        title = str(self.title or about["name"])
        return _response(_filled(about, title, request), title)


def wants_page(scope: Scope) -> bool:
    """Whether a browser requests the start page, and the server shows one.

    Args:
        scope: ASGI's description of the request.
    """
    return _is_of_browser(scope) and path_of(scope) == _ROOT


def locked_page() -> Response:
    """Return the start page for a request without a token: it says nothing of the environment."""
    response = _response(_LOCKED, "OpenEnv")
    response.status_code = 401
    return response


def path_of(scope: Scope) -> str:
    """Return the path of a request within its application."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _is_read_of_root(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and path_of(scope) == _ROOT


def _is_of_browser(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD") or not shows_pages():
        return False
    return "text/html" in Request(scope).headers.get("accept", "")


def shows_pages() -> bool:
    """Whether the server shows pages to browsers, which it does unless ``WEB_VARIABLE`` says otherwise."""
    return os.environ.get(WEB_VARIABLE, "").strip().lower() not in _OFF


def enables_web() -> bool:
    """Whether ``WEB_VARIABLE`` makes ``/`` lead to the page, and adds the routes of the public package's page."""
    return os.environ.get(WEB_VARIABLE, "").strip().lower() in _ON


def _filled(about: Mapping[str, Any], title: str, request: Request) -> str:
    """Return the page's HTML. The environment's texts and the request's headers are escaped."""
    scheme = "https" if request.headers.get("x-forwarded-proto") == "https" else request.url.scheme
    url = f"{scheme}://{request.headers.get('host', 'localhost')}{request.scope.get('root_path', '')}"
    texts = {
        "title": title,
        "description": str(about["description"]),
        "url": url,
        "socket": f"ws{url.removeprefix('http')}",
    }
    return _BODY.format_map({name: escape(text) for name, text in texts.items()})


def _response(body: str, title: str) -> Response:
    html = _HTML.format(title=escape(title), style=_STYLE, body=body, version=escape(__version__))
    return Response(html, headers=_HEADERS, media_type="text/html")
