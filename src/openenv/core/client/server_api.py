"""What a client reads of a server over HTTP: the schemas of its environment's types, and the tasks that it lists."""

import json
from collections.abc import Mapping
from http.client import HTTPException
from ssl import SSLContext
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPSHandler, Request

from openenv.core.addresses import server_address, url_with_path, without_query
from openenv.core.client.transport.connection import failure_text, server_sentence, unauthorized
from openenv.core.documents import MAX_JSON_BYTES, parse_json
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    ErrorCode,
    OpenEnvError,
    ServerExecutionError,
)
from openenv.core.providers.health import opener_for
from openenv.core.reset_check import unknown_split_text

_SCHEMAS_TIMEOUT_S = 10.0
_TASKS_TIMEOUT_S = 60.0
_BAD_REQUEST, _UNAUTHORIZED, _NOT_FOUND, _UNSUPPORTED = 400, 401, 404, 501
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
    server = _Server(base_url, headers or {}, timeout_s, ssl)
    address = without_query(url_with_path(server.address, "/schema"))
    try:
        document = server.request("/schema")
    except _StatusError as error:
        raise ConnectionFailedError(f"Expected the environment's schemas at {address}, but: {error}.") from error
    except _NoAnswerError as error:
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
    server = _Server(base_url, headers or {}, _SCHEMAS_TIMEOUT_S, ssl)
    try:
        return server.request("/metadata")
    except _StatusError:
        return None
    except _NoAnswerError as error:
        at = without_query(url_with_path(server.address, "/metadata"))
        raise ConnectionFailedError(f"Expected the environment's name and description at {at}, but: {error}") from None


def fetch_tasks(
    base_url: str, split: str, headers: Mapping[str, str] | None = None, ssl: SSLContext | None = None
) -> list[dict[str, Any]]:
    """Request the tasks of a split. This blocks.

    Args:
        base_url: The server's address: ``http://``, ``https://``, ``ws://``, ``wss://`` or a bare host.
        split: Name of the split.
        headers: Further headers of the requests.
        ssl: Certificates to trust; ``None`` for those of the system.

    Returns:
        What ``reset`` is passed for each task: the task's fields with ``split`` and ``index``, which is where it is
        listed. An environment's ``reset`` is passed those that its signature takes.

    Raises:
        ConfigurationError: The environment lists no tasks, there is no such split, or the address is none.
        ConnectionFailedError: There is no server, or its answer is not as it must be.
        ServerExecutionError: The environment failed.
        ServerUnauthorizedError: It asks for a token, or for another one.
    """
    routes = _TaskRoutes(_Server(base_url, headers or {}, _TASKS_TIMEOUT_S, ssl))
    environment = _environment(routes, base_url)
    splits = _splits(routes, environment)
    if splits and split not in splits:
        raise ConfigurationError(unknown_split_text(split, splits))
    try:
        answer = routes.request(f"/{environment}/tasks", {"split": split})
        tasks = answer.get("tasks") if isinstance(answer, dict) else None
    except _UnsupportedError:
        answer = routes.request(f"/{environment}/num_tasks", {"split": split})
        count = answer.get("num_tasks") if isinstance(answer, dict) else None
        tasks = [{}] * count if isinstance(count, int) else None
    if not isinstance(tasks, list):
        at = without_query(base_url)
        raise ConnectionFailedError(f"Expected the tasks of {environment} at {at}, got {answer!r:.200}.")
    return [_row(task, split, index) for index, task in enumerate(tasks)]


def fetch_splits(base_url: str, headers: Mapping[str, str] | None = None, ssl: SSLContext | None = None) -> list[str]:
    """Request the names of the splits, none where the environment lists none; see ``fetch_tasks``."""
    routes = _TaskRoutes(_Server(base_url, headers or {}, _TASKS_TIMEOUT_S, ssl))
    return _splits(routes, _environment(routes, base_url))


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


class _StatusError(Exception):
    """The server answered with a status that is no success; the message says what it said.

    Attributes:
        status: The status.
    """

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class _NoAnswerError(Exception):
    """There was no answer, or none that can be read; the message says why."""


class _UnsupportedError(ConfigurationError):
    """The environment does not support this request for its tasks."""


class _Server:
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
            _StatusError: It answered with another status than success.
            _NoAnswerError: There was no answer, or no document.
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
            raise _NoAnswerError(failure_text(error)) from None


class _TaskRoutes:
    """The routes by which an environment lists its tasks.

    Args:
        server: The server.
    """

    def __init__(self, server: _Server) -> None:
        self._server = server

    def request(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request; see ``_Server.request``."""
        url = without_query(url_with_path(self._server.address, path))
        try:
            return self._server.request(path, body)
        except _NoAnswerError as error:
            raise ConnectionFailedError(f"Expected the environment's tasks at {url}, but: {error}") from None
        except _StatusError as error:
            raise _tasks_error(url, error) from error


def _status_error(url: str, error: HTTPError) -> Exception:
    with error:
        message = server_sentence(error.read())
    if error.code == _UNAUTHORIZED:
        return unauthorized(url, message)
    return _StatusError(error.code, message or repr(error))


def _tasks_error(url: str, error: _StatusError) -> OpenEnvError:
    if error.status == _UNSUPPORTED:
        return _UnsupportedError(
            "The environment lists no tasks, so it has no splits; take seeds, or tasks of your own. "
            f"The answer of {url}: {error}."
        )
    if error.status in (_BAD_REQUEST, _NOT_FOUND):
        return ConfigurationError(f"Expected tasks at {url}, but: {error}.")
    return ServerExecutionError(f"Expected tasks at {url}, but: {error}.", ErrorCode.EXECUTION_ERROR)


def _environment(routes: _TaskRoutes, base_url: str) -> str:
    """Request the name with which the routes begin."""
    named = routes.request("/list_environments")
    if not isinstance(named, list) or not named or not isinstance(named[0], str):
        at = without_query(base_url)
        raise ConnectionFailedError(f"Expected the names of environments at {at}, got {named!r:.200}.")
    return quote(named[0])


def _splits(routes: _TaskRoutes, environment: str) -> list[str]:
    """Request the names of the splits; none where the environment does not list them."""
    try:
        listed = routes.request(f"/{environment}/splits")
    except (ConfigurationError, ServerExecutionError):
        return []
    named = [split.get("name") for split in listed if isinstance(split, dict)] if isinstance(listed, list) else []
    return [name for name in named if isinstance(name, str)]


def _row(task: Any, split: str, index: int) -> dict[str, Any]:
    fields = task if isinstance(task, dict) else {"task": task}
    return {**fields, "split": fields.get("split", split), "index": fields.get("index", index)}
