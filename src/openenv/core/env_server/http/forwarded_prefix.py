"""Prefix of the path under which a proxy publishes a server, from the header ``X-Forwarded-Prefix``."""

import os
import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import _TrustedHosts

_HEADER = "x-forwarded-prefix"
# Names that are not . or .., each after a slash; two slashes at the beginning would be the address of another site.
_PREFIX = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~@+-]{1,100}){1,16}")


class ForwardedPrefix:
    """ASGI middleware that serves requests of a trusted proxy under the prefix that the proxy names.

    The proxy is trusted where uvicorn trusts its other headers: on this machine, or as ``FORWARDED_ALLOW_IPS`` says.

    Args:
        app: The application behind it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._trusted = _TrustedHosts(os.environ.get("FORWARDED_ALLOW_IPS") or "127.0.0.1")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the prefix to a request's root path, and pass the request on."""
        prefix = self._prefix(scope) if scope["type"] != "lifespan" else ""
        await self._app(_below(scope, prefix) if prefix else scope, receive, send)

    def _prefix(self, scope: Scope) -> str:
        headers = Headers(scope=scope)
        prefix = headers.get(_HEADER, "").partition(",")[0].strip().rstrip("/")
        if not _PREFIX.fullmatch(prefix):
            return ""
        peer, port = scope.get("client") or ("127.0.0.1", 0)
        # uvicorn has put the address of the client in place of that of a proxy that it trusts, with the port 0.
        is_trusted = port == 0 if "x-forwarded-for" in headers else peer in self._trusted
        return prefix if is_trusted else ""


def _below(scope: Scope, prefix: str) -> Scope:
    """Return the scope of a request whose root path begins with a prefix, which its path may have or lack."""
    root, path, raw_path = scope.get("root_path", ""), scope["path"], scope.get("raw_path") or b""
    if root.startswith(prefix):  # the server was told, too
        return scope
    if path != prefix and not path.startswith(f"{prefix}/"):  # the proxy has cut it off
        path, raw_path = prefix + path, prefix.encode() + raw_path
    return {**scope, "root_path": prefix + root, "path": path, "raw_path": raw_path}
