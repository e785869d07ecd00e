"""The tasks that a server lists of its environment."""

import json
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request

from openenv.core.client.schemas import http_address
from openenv.core.client.transport.connection import failure_text, server_sentence, unauthorized
from openenv.core.documents import MAX_JSON_BYTES, parse_json
from openenv.core.exceptions import ConfigurationError, ConnectionFailedError, ErrorCode, ServerExecutionError
from openenv.core.providers.health import opener_for
from openenv.core.reset_check import unknown_split_text

_TIMEOUT_S = 60.0
_UNAUTHORIZED = 401
_NOT_SAID = 501


def fetch_tasks(base_url: str, split: str, headers: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Ask a server for the tasks of a split. This blocks.

    Args:
        base_url: The server's address: ``http://``, ``https://``, ``ws://``, ``wss://`` or a bare host.
        split: Name of the split.
        headers: Further headers of the requests.

    Returns:
        What ``reset`` is passed for each task: the task's fields with ``split`` and ``index``, which is where it is
        listed. An environment's ``reset`` is passed those that its signature takes.

    Raises:
        ConfigurationError: The environment lists no tasks, there is no such split, or the address is none.
        ConnectionFailedError: There is no server, or its answer is not as it must be.
        ServerExecutionError: The environment failed.
        ServerUnauthorizedError: It asks for a token, or for another one.
    """
    asked = _Asked(base_url, headers or {})
    named = asked.ask("/list_environments")
    if not isinstance(named, list) or not named or not isinstance(named[0], str):
        raise ConnectionFailedError(f"Expected the names of environments at {base_url}, got {named!r:.200}.")
    environment = quote(named[0])
    splits = _splits(asked, environment)
    if splits and split not in splits:
        raise ConfigurationError(unknown_split_text(split, splits))
    try:
        answer = asked.ask(f"/{environment}/tasks", {"split": split})
        tasks = answer.get("tasks") if isinstance(answer, dict) else None
    except _NotSaidError:
        answer = asked.ask(f"/{environment}/num_tasks", {"split": split})
        count = answer.get("num_tasks") if isinstance(answer, dict) else None
        tasks = [{}] * count if isinstance(count, int) else None
    if not isinstance(tasks, list):
        raise ConnectionFailedError(f"Expected the tasks of {named[0]} at {base_url}, got {answer!r:.200}.")
    return [_row(task, split, index) for index, task in enumerate(tasks)]


def _splits(asked: "_Asked", environment: str) -> list[str]:
    """Ask for the names of the splits; none where the environment does not list them."""
    try:
        listed = asked.ask(f"/{environment}/splits")
    except (ConfigurationError, ServerExecutionError):
        return []
    named = [split.get("name") for split in listed if isinstance(split, dict)] if isinstance(listed, list) else []
    return [name for name in named if isinstance(name, str)]


class _NotSaidError(ConfigurationError):
    """The environment does not say this of its tasks."""


class _Asked:
    """A server that is asked over HTTP."""

    def __init__(self, base_url: str, headers: Mapping[str, str]) -> None:
        self._address = http_address(base_url)
        self._headers = headers

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request and read its answer.

        Args:
            path: The path, with its slash.
            body: What to post; ``None`` to get.
        """
        url = f"{self._address}{path}"
        data = None if body is None else json.dumps(body).encode()
        request = Request(url, data, {"Content-Type": "application/json"})  # noqa: S310  # http_address has checked it
        for name, value in self._headers.items():
            request.add_unredirected_header(name, value)  # they may hold secrets, which are for this server alone
        try:
            with opener_for(url).open(request, timeout=_TIMEOUT_S) as answer:
                return parse_json(answer.read(MAX_JSON_BYTES))
        except HTTPError as error:
            raise _refusal(url, error) from error
        except (OSError, HTTPException, ValueError) as error:
            said = failure_text(error)
            raise ConnectionFailedError(f"Expected the environment's tasks at {url}, but: {said}") from None


def _refusal(url: str, error: HTTPError) -> Exception:
    with error:
        said = server_sentence(error.read())
    if error.code == _UNAUTHORIZED:
        return unauthorized(url, said)
    if error.code == _NOT_SAID:
        return _NotSaidError(
            "The environment lists no tasks, so it has no splits; take seeds, or tasks of your own. "
            f"The answer of {url}: {said or error!r}."
        )
    if error.code in (400, 404):
        return ConfigurationError(f"Expected tasks at {url}, but: {said or repr(error)}.")
    return ServerExecutionError(f"Expected tasks at {url}, but: {said or repr(error)}.", ErrorCode.EXECUTION_ERROR)


def _row(task: Any, split: str, index: int) -> dict[str, Any]:
    fields = task if isinstance(task, dict) else {"task": task}
    return {**fields, "split": fields.get("split", split), "index": fields.get("index", index)}
