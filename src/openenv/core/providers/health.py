"""Wait until a server is ready: ``GET /health`` until it answers 200."""

import time
from collections.abc import Callable, Mapping
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import BaseHandler, HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

from openenv.core.addresses import is_on_this_machine, server_address, url_with_path, without_query
from openenv.core.exceptions import ConfigurationError

FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.5
REQUEST_TIMEOUT_S = 2.0
"""Above this a request is given up and sent again, so that ``check_alive`` gets its turn."""


class NoRedirects(HTTPRedirectHandler):
    """Takes a redirect for an answer: where it leads, credentials must not go, and a login page is no server."""

    def redirect_request(self, *_: object) -> None:
        """Follow nothing."""


def opener_for(url: str, *handlers: BaseHandler) -> OpenerDirector:
    """Make what opens URLs of a server, through no proxy if the server is on this machine."""
    return build_opener(ProxyHandler({}), *handlers) if is_on_this_machine(url) else build_opener(*handlers)


def wait_until_healthy(
    base_url: str, timeout_s: float, check_alive: Callable[[], None], headers: Mapping[str, str] | None = None
) -> None:
    """Block until ``GET <base_url>/health`` answers 200. A proxy is not used for a server on this machine.

    Args:
        base_url: The server's address, ``http://`` or ``https://``.
        timeout_s: Seconds to wait at most.
        check_alive: Called before each attempt; raises if the server can't become ready any more.
        headers: What each request sends; no redirect is followed with them.

    Raises:
        ConfigurationError: ``base_url`` is no HTTP address.
        TimeoutError: The server did not answer 200 in time; the message says what it did instead.
    """
    request = _request(base_url, "/health", headers)
    opener = opener_for(base_url, NoRedirects()) if headers else opener_for(base_url)
    deadline = time.monotonic() + timeout_s
    pause = FIRST_PAUSE_S
    while True:
        check_alive()
        remaining = deadline - time.monotonic()
        refusal = _refusal(opener, request, min(max(remaining, 0.01), REQUEST_TIMEOUT_S))
        if refusal is None:
            return
        if deadline - time.monotonic() <= pause:
            raise TimeoutError(
                f"{without_query(base_url)} was not ready within {timeout_s:g} s; the last try gave: {refusal}."
            )
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)


def is_up(base_url: str, timeout_s: float) -> bool:
    """Ask once whether a server is there: one that has no ``/health``, as some behind a proxy, may answer ``/``.

    Args:
        base_url: The server's address, ``http://`` or ``https://``.
        timeout_s: Seconds that each of the two answers may take.

    Raises:
        ConfigurationError: ``base_url`` is no HTTP address.
    """
    requests = [_request(base_url, path) for path in ("/health", "/")]
    opener = opener_for(base_url)
    return any(_refusal(opener, request, timeout_s) is None for request in requests)


def _request(base_url: str, path: str, headers: Mapping[str, str] | None = None) -> Request:
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"A server's address looks like http://host:port, but got {base_url!r}.")
    url = url_with_path(server_address(base_url), path)
    return Request(url, headers=dict(headers or {}))  # noqa: S310  # the scheme was checked above


def _refusal(opener: OpenerDirector, request: Request, timeout_s: float) -> str | None:
    """Ask once; return ``None`` for a healthy server, else what came instead of 200."""
    try:
        with opener.open(request, timeout=timeout_s) as response:
            return None if response.status == 200 else f"status {response.status}"
    except HTTPError as error:
        error.close()
        return f"status {error.code}"
    except (OSError, HTTPException) as error:
        return str(error) or type(error).__name__
