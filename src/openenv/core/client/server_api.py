"""What a client reads of a server over HTTP: its routes, and the schemas of its environment's types."""

import json
from collections.abc import Mapping
from http.client import HTTPException
from ssl import SSLContext
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, Request

from openenv.core.addresses import server_address, url_with_path, without_query
from openenv.core.client.transport.connection import failure_text, server_sentence, unauthorized
from openenv.core.documents import MAX_JSON_BYTES, parse_json
from openenv.core.exceptions import ConfigurationError, ConnectionFailedError
from openenv.core.providers.health import opener_for

_SCHEMAS_TIMEOUT_S = 10.0
_UNAUTHORIZED = 401
_HTTP_SCHEMES = {"ws": "http", "wss": "https"}
_SCHEMA_PARTS = frozenset({"action", "observation", "state"})


def fetch_schemas(
    base_url: str,
    headers: Mapping[str, str] | None = None,
    timeout_s: float | None = _SCHEMAS_TIMEOUT_S,
    ssl: SSLContext | None = None,
) -> dict[str, dict[str, Any]]:
    """Request a server's schemas. This blocks.

    Args:
        base_url: The server's address: ``http://``, ``https://``, ``ws://``, ``wss://`` or a bare host.
        headers: Further headers of the request.
        timeout_s: Seconds that connecting and each part of the answer may take; ``None`` for no limit.
        ssl: Certificates to trust; ``None`` for those of the system.

    Returns:
        The schemas of ``action``, ``observation`` and ``state``.

    Raises:
        ConfigurationError: The address is none.
        ConnectionFailedError: There is no server, or it has no schemas.
        ServerUnauthorizedError: It asks for a token, or for another one.
    """
    server = Server(base_url, headers or {}, timeout_s, ssl)
    address = without_query(url_with_path(server.address, "/schema"))
    try:
        document = server.request("/schema")
    except StatusError as error:
        raise ConnectionFailedError(f"Expected the environment's schemas at {address}, but: {error}.") from error
    except NoAnswerError as error:
        raise ConnectionFailedError(f"Expected the environment's schemas at {address}, but: {error}") from None
    if not isinstance(document, dict) or not document.keys() >= _SCHEMA_PARTS:
        raise ConnectionFailedError(
            f"Expected the environment's schemas at {address}, got {document!r:.200}. Is it an OpenEnv server?"
        )
    return {part: schema for part, schema in document.items() if isinstance(schema, dict)}


def fetch_metadata(base_url: str, headers: Mapping[str, str] | None = None, ssl: SSLContext | None = None) -> Any:
    """Request the name and description that a server publishes; ``None`` where it has none. This blocks.

    Raises:
        ConfigurationError: The address is none.
        ConnectionFailedError: There is no server, or it answers with no document.
        ServerUnauthorizedError: It expects a token, or another one.
    """
    server = Server(base_url, headers or {}, _SCHEMAS_TIMEOUT_S, ssl)
    try:
        return server.request("/metadata")
    except StatusError:
        return None
    except NoAnswerError as error:
        at = without_query(url_with_path(server.address, "/metadata"))
        raise ConnectionFailedError(f"Expected the environment's name and description at {at}, but: {error}") from None


def http_address(base_url: str) -> str:
    """Return where a server answers over HTTP, without a slash at the end.

    Args:
        base_url: The server's address: ``http://``, ``https://``, ``ws://``, ``wss://`` or a bare host.

    Raises:
        ConfigurationError: It is no address.
    """
    scheme, separator, rest = server_address(base_url).partition("://")
    if not separator:
        return f"http://{scheme}"
    scheme = scheme.lower()
    scheme = _HTTP_SCHEMES.get(scheme, scheme)
    if scheme not in ("http", "https"):
        raise ConfigurationError(f"A server's address looks like http://host:port, but got {base_url!r}.")
    return f"{scheme}://{rest}"


class StatusError(Exception):
    """The server answered with a status that is no success; the message says what it said.

    Attributes:
        status: The status.
    """

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class NoAnswerError(Exception):
    """There was no answer, or none that can be read; the message says why."""


class Server:
    """The routes of a server.

    Args:
        base_url: The server's address.
        headers: Further headers of the requests.
        timeout_s: Seconds that connecting and each part of an answer may take; ``None`` for no limit.
        ssl: Certificates to trust; ``None`` for those of the system.

    Attributes:
        address: The server's address over HTTP.

    Raises:
        ConfigurationError: The address is none.
    """

    def __init__(
        self, base_url: str, headers: Mapping[str, str], timeout_s: float | None, ssl: SSLContext | None
    ) -> None:
        self._handlers = () if ssl is None else (HTTPSHandler(context=ssl),)
        self.address = http_address(base_url)
        self._headers = headers
        self._timeout_s = timeout_s

    def request(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request and return the document of its answer.

        Args:
            path: The path, with its slash.
            body: What to post; ``None`` to get.

        Raises:
            ServerUnauthorizedError: The server asks for a token, or for another one.
            StatusError: It answered with another status than success.
            NoAnswerError: There was no answer, or no document.
        """
        url = url_with_path(self.address, path)
        data = None if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        request = Request(url, data, kind)  # noqa: S310  # http_address has checked it
        for name, value in self._headers.items():
            request.add_unredirected_header(name, value)  # they may hold secrets, which are for this server alone
        try:
            with opener_for(url, *self._handlers).open(request, timeout=self._timeout_s) as answer:
                return parse_json(answer.read(MAX_JSON_BYTES))
        except HTTPError as error:
            raise _status_error(without_query(url), error) from error
        except (OSError, HTTPException, ValueError) as error:
            raise NoAnswerError(failure_text(error)) from None


def _status_error(url: str, error: HTTPError) -> Exception:
    with error:
        message = server_sentence(error.read())
    if error.code == _UNAUTHORIZED:
        return unauthorized(url, message)
    return StatusError(error.code, message or repr(error))
