"""What a client reads of a server over HTTP: the schemas of its environment's types, and the tasks that it lists."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from http.client import HTTPException
from ssl import SSLContext
from typing import Any, Protocol, cast
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPSHandler, Request

from openenv.core.addresses import server_address, url_with_path, without_query
from openenv.core.client.blocking import wait_for
from openenv.core.client.transport.connection import failure_text, server_sentence, unauthorized
from openenv.core.documents import MAX_JSON_BYTES, parse_json
from openenv.core.exceptions import ConfigurationError, ConnectionFailedError, ErrorCode, ServerExecutionError
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


class StartedClient(Protocol):
    """Client of an environment, ``EnvClient`` or its facade, which knows where its server is."""

    @property
    def task_api(self) -> Callable[[], Any]:
        """The function that returns the client of the server's Task API, or a coroutine of that."""
        ...


class TaskAPIClient:
    """Client of the routes by which a server lists the tasks of its environment. Its methods block.

    No session is opened, and nothing of an environment is changed. A task has its ``split`` and ``index``, which
    ``reset`` is passed. ``EnvClient`` has the same as ``splits``, ``num_tasks``, ``task``, ``task_range``
    and ``tasks``.

    Args:
        base_url: The server's address: ``http://``, ``https://``, ``ws://``, ``wss://`` or a bare host.
        env_name: Name of the environment there; that of the server's first one if ``None``.
        headers: Further headers of the requests, such as ``{"Authorization": "Bearer ..."}``.
        ssl: Certificates to trust; ``None`` for those of the system.

    Raises:
        ConfigurationError: The address is none.

    All methods raise ``ConnectionFailedError`` where there is no server or its answer is not as it must be,
    ``ServerUnauthorizedError`` where it expects a token, or another one, and ``ServerExecutionError`` where the
    environment failed.

    Example::

        tasks = TaskAPIClient("http://localhost:8000")
        for task in tasks.iter_tasks("test"):
            client.reset(**task)
    """

    def __init__(
        self,
        base_url: str,
        env_name: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        ssl: SSLContext | None = None,
    ) -> None:
        self._server = _Server(base_url, headers or {}, _TASKS_TIMEOUT_S, ssl)
        self._env_name = env_name
        # Set when the splits are read, which each request for tasks is checked by.
        self._known_splits: list[str] | None = None

    @staticmethod
    def from_env_client(env: StartedClient) -> "TaskAPIClient":
        """Return the client for the server of a client, with its token; that server is started if it is not yet.

        Args:
            env: The client, which is not closed with this one.

        Raises:
            ProviderError: The server could not be started.
        """
        return cast("TaskAPIClient", wait_for(env.task_api))

    @cached_property
    def env_name(self) -> str:
        """Name of the environment, with which the routes begin.

        Raises:
            ConnectionFailedError: There is no server, or it has no environment.
        """
        if self._env_name is not None:
            return self._env_name
        named = self._request("/list_environments")
        if not isinstance(named, list) or not named or not isinstance(named[0], str):
            raise ConnectionFailedError(
                f"Expected the names of environments at {without_query(self._server.address)}, got {named!r:.200}."
            )
        return named[0]

    def list_splits(self) -> list[dict[str, Any]]:
        """List the splits, each with its ``name`` and its ``type``: train, validation or test.

        Raises:
            NotImplementedError: The environment lists no splits. It is a ``ConfigurationError`` too.
        """
        listed: list[dict[str, Any]] = self._checked(self._request(f"{self._prefix}/splits"), list)
        return listed

    def split_names(self) -> list[str]:
        """List the names of the splits; none where the environment does not list them."""
        prefix = self._prefix  # a server without environments is an error
        try:
            splits = self._request(f"{prefix}/splits")
        except (ConfigurationError, ServerExecutionError):
            splits = []
        names = [split.get("name") for split in splits if isinstance(split, dict)] if isinstance(splits, list) else []
        self._known_splits = [name for name in names if isinstance(name, str)]
        return list(self._known_splits)

    def num_tasks(self, split: str = "train") -> int:
        """Count the tasks of a split.

        Raises:
            NotImplementedError: Its tasks are not counted or not listed. It is a ``ConfigurationError`` too.
            ConfigurationError: There is no such split.
        """
        try:
            return self._count(split)
        except NotImplementedError:
            return len(self._listed(split))

    def list_tasks(self, split: str = "train") -> list[dict[str, Any]]:
        """List the tasks of a split: what ``reset`` is passed for each.

        Raises:
            NotImplementedError: They are not listed. It is a ``ConfigurationError`` too.
            ConfigurationError: There is no such split.
        """
        try:
            tasks = self._listed(split)
        except NotImplementedError:
            tasks = [{}] * self._count(split)
        return [_row(task, split, index) for index, task in enumerate(tasks)]

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return what ``reset`` is passed for a task.

        Args:
            split: Name of its split.
            index: Its index there, from 0.

        Raises:
            IndexError: There is no such task. It is a ``ConfigurationError`` too.
            NotImplementedError: Tasks are not listed. It is a ``ConfigurationError`` too.
        """
        answer = self._checked(self._post("task", split, index=index), dict)
        return _row(answer.get("task"), split, index)

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Return what ``reset`` is passed for the tasks from ``start`` up to ``stop``, fewer where the split ends.

        Raises:
            NotImplementedError: Tasks are not listed, or not counted and ``stop`` is ``None``. It is a
                ``ConfigurationError`` too.
            ConfigurationError: There is no such split.
        """
        try:
            answer = self._checked(self._post("task_range", split, start=start, stop=stop), dict)
        except NotImplementedError:
            return self.list_tasks(split)[start:stop]
        first = range(self.num_tasks(split))[start:stop].start if (start or 0) < 0 else start or 0
        return [_row(task, split, index) for index, task in enumerate(self._checked(answer.get("tasks"), list), first)]

    def iter_tasks(self, split: str = "train", page_size: int = 256) -> Iterator[dict[str, Any]]:
        """Iterate over the tasks of a split, also over those that are not counted.

        Args:
            split: Name of the split.
            page_size: Number of tasks in a request.

        Raises:
            ConfigurationError: ``page_size`` is below 1, or there is no such split.
            NotImplementedError: Tasks are not listed. It is a ``ConfigurationError`` too.
        """
        if page_size < 1:
            raise ConfigurationError(f"Expected page_size to be 1 or more, got {page_size}.")
        start = 0
        while page := self.get_task_range(split, start, start + page_size):
            yield from page
            if len(page) < page_size:
                return
            start += page_size

    @property
    def _prefix(self) -> str:
        return f"/{quote(self.env_name)}"

    def _count(self, split: str) -> int:
        answer = self._checked(self._post("num_tasks", split), dict)
        return int(self._checked(answer.get("num_tasks"), int))

    def _listed(self, split: str) -> list[Any]:
        listed: list[Any] = self._checked(self._checked(self._post("tasks", split), dict).get("tasks"), list)
        return listed

    def _post(self, method: str, split: str, **arguments: int | None) -> Any:
        """Request tasks of a split; a name that is not among the listed ones is refused with the nearest."""
        known = self.split_names() if self._known_splits is None else self._known_splits
        if known and split not in known and split not in (known := self.split_names()):
            raise ConfigurationError(unknown_split_text(split, known))
        return self._request(f"{self._prefix}/{method}", {"split": split, **arguments})

    def _request(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        url = without_query(url_with_path(self._server.address, path))
        try:
            return self._server.request(path, body)
        except _NoAnswerError as error:
            raise ConnectionFailedError(f"Expected the environment's tasks at {url}, but: {error}") from None
        except _StatusError as error:
            raise _error_of(url, error, body or {}) from error

    def _checked(self, answer: Any, kind: type) -> Any:
        """Return an answer, or a part of one, that is of its kind."""
        if not isinstance(answer, kind) or isinstance(answer, bool):
            at = without_query(self._server.address)
            raise ConnectionFailedError(f"Expected the tasks of {self.env_name} at {at}, got {answer!r:.200}.")
        return answer


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


class _UnsupportedError(ConfigurationError, NotImplementedError):
    """The environment does not support this request for its tasks."""


class _NoSuchTaskError(ConfigurationError, IndexError):
    """The environment has no such task, or no such split."""


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


def _status_error(url: str, error: HTTPError) -> Exception:
    with error:
        message = server_sentence(error.read())
    if error.code == _UNAUTHORIZED:
        return unauthorized(url, message)
    return _StatusError(error.code, message or repr(error))


def _error_of(url: str, error: _StatusError, body: Mapping[str, Any]) -> Exception:
    if error.status == _UNSUPPORTED:
        return _UnsupportedError(
            "The environment lists no tasks, so it has no splits; take seeds, or tasks of your own. "
            f"The answer of {url}: {error}."
        )
    if error.status == _BAD_REQUEST:
        wanted = ", ".join(f"{name} {value}" for name, value in body.items())
        return _NoSuchTaskError(f"Expected a task that is there at {url}, got {wanted}: {error}.")
    if error.status == _NOT_FOUND:
        return ConfigurationError(f"Expected tasks at {url}, but: {error}.")
    return ServerExecutionError(f"Expected tasks at {url}, but: {error}.", ErrorCode.EXECUTION_ERROR)


def _row(task: Any, split: str, index: int) -> dict[str, Any]:
    fields = task if isinstance(task, dict) else {"task": task}
    return {**fields, "split": fields.get("split", split), "index": fields.get("index", index)}
