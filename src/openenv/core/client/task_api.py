"""Client of the Task API: the splits and tasks that a server lists."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from ssl import SSLContext
from typing import Any, Protocol, cast
from urllib.parse import quote

from openenv.core.addresses import url_with_path, without_query
from openenv.core.client.blocking import wait_for
from openenv.core.client.server_api import NoAnswerError, Server, StatusError
from openenv.core.exceptions import ConfigurationError, ConnectionFailedError, ErrorCode, ServerExecutionError
from openenv.core.reset_check import unknown_split_text

_TIMEOUT_S = 60.0
_BAD_REQUEST, _NOT_FOUND, _UNSUPPORTED = 400, 404, 501


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
        self._server = Server(base_url, headers or {}, _TIMEOUT_S, ssl)
        self._env_name = env_name

    @staticmethod
    def from_env_client(env: StartedClient) -> "TaskAPIClient":
        """Make a client for the server of a client, with its token; that server is started if it is not yet.

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
            return []
        names = [split.get("name") for split in splits if isinstance(split, dict)] if isinstance(splits, list) else []
        return [name for name in names if isinstance(name, str)]

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

    @cached_property
    def _known_splits(self) -> list[str]:
        return self.split_names()

    def _count(self, split: str) -> int:
        answer = self._checked(self._post("num_tasks", split), dict)
        return int(self._checked(answer.get("num_tasks"), int))

    def _listed(self, split: str) -> list[Any]:
        listed: list[Any] = self._checked(self._checked(self._post("tasks", split), dict).get("tasks"), list)
        return listed

    def _post(self, method: str, split: str, **arguments: int | None) -> Any:
        """Request tasks of a split; a name that is not among the listed ones is refused with the nearest."""
        if self._known_splits and split not in self._known_splits:
            raise ConfigurationError(unknown_split_text(split, self._known_splits))
        return self._request(f"{self._prefix}/{method}", {"split": split, **arguments})

    def _request(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        url = without_query(url_with_path(self._server.address, path))
        try:
            return self._server.request(path, body)
        except NoAnswerError as error:
            raise ConnectionFailedError(f"Expected the environment's tasks at {url}, but: {error}") from None
        except StatusError as error:
            raise _error_of(url, error, body or {}) from error

    def _checked(self, answer: Any, kind: type) -> Any:
        """Return an answer, or a part of one, that is of its kind."""
        if not isinstance(answer, kind) or isinstance(answer, bool):
            at = without_query(self._server.address)
            raise ConnectionFailedError(f"Expected the tasks of {self.env_name} at {at}, got {answer!r:.200}.")
        return answer


class _UnsupportedError(ConfigurationError, NotImplementedError):
    """The environment does not support this request for its tasks."""


class _NoSuchTaskError(ConfigurationError, IndexError):
    """The environment has no such task, or no such split."""


def _error_of(url: str, error: StatusError, body: Mapping[str, Any]) -> Exception:
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
